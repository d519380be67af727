"""A dataset under check: its manifest, and handles that open when first used."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from roboreel.check.listing import list_files
from roboreel.errors import DatasetError
from roboreel.findings import finding
from roboreel.format.paths import STATS_PATH
from roboreel.format.statistics import read_stats
from roboreel.frames.frame_reader import FrameReader
from roboreel.words import name_episodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.check.episode_images import EpisodeImages
    from roboreel.check.listing import Listing
    from roboreel.findings import Finding
    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

    Progress = Callable[[str, int, int], None]


class Gathered(Protocol):
    """What the tasks of a job have read, in the order of their plan."""

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Yield ``outcomes`` of some data files, and ``states`` of the scans by name."""

    def videos(self) -> Iterator[Mapping[str, Any]]:
        """Yield ``videos`` of some files, and the states of ``still`` packets by camera."""

    def images(self) -> Iterator[EpisodeImages]:
        """Yield what was seen of each episode of each camera."""


_OF_ONE_FILE = (
    *("RR107", "RR108", "RR305", "RR401", "RR402", "RR403", "RR404"),
    *("RR407", "RR408", "RR410", "RR411"),
)


class Context:
    """What checks look at. They read from it, and change nothing.

    Args:
        manifest: The dataset.
        episodes: Numbers of the episodes to check; all when not given.
        on_progress: Called with what is being read, how much of it is done, and how much there is.
        gathered: What a job has read already; then no data file is scanned here, no video read and
            no image decoded.

    Raises:
        EpisodeNotFoundError: A number that no episode has.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        episodes: Sequence[int] | None = None,
        on_progress: Progress | None = None,
        gathered: Gathered | None = None,
    ) -> None:
        self.gathered = gathered
        self.manifest = manifest
        self.root = manifest.root
        self.is_whole = episodes is None
        """Whether all episodes are to be checked."""
        count = len(manifest.episodes)
        self.wanted: NDArray[np.bool_] = np.full(count, self.is_whole)
        """Whether to check each episode, by its position."""
        if episodes is not None:
            self.wanted[manifest.episodes.positions_of(episodes)] = True
        self._on_progress = on_progress

    def report_progress(self, what: str, done: int, total: int) -> None:
        """Report how far a check has come: ``("Data files", 3, 40)``."""
        if self._on_progress is not None:
            self._on_progress(what, done, total)

    @cached_property
    def listing(self) -> Listing:
        """The files in the dataset's folders."""
        return list_files(self.manifest)

    @cached_property
    def frames(self) -> FrameReader:
        """What the data and video files hold, as training reads it."""
        return FrameReader(self.manifest, decode_threads=1)

    @cached_property
    def stats(self) -> dict[str, FeatureStats]:
        """The stored statistics of the whole dataset; empty if there are none to be read."""
        if STATS_PATH not in self.listing:
            return {}
        try:
            return read_stats(self.manifest)
        except DatasetError:  # a finding of its own: RR107 or RR111
            return {}

    @cached_property
    def positions_by_data_file(self) -> list[NDArray[np.int64]]:
        """The positions of the episodes in each data file, whether wanted or not."""
        return _by_file(self.manifest.episodes.data_file, len(self.manifest.data_files))

    def positions_by_video_file(self, camera: str) -> list[NDArray[np.int64]]:
        """Return the positions of the episodes in each video file of a camera, wanted or not."""
        clips = self.manifest.episodes.clips[camera]
        return _by_file(clips.file, len(self.manifest.video_files[camera]))

    @cached_property
    def numbers_by_file(self) -> dict[str, NDArray[np.int64]]:
        """The numbers of the episodes in each data and video file, whether wanted or not."""
        manifest = self.manifest
        found = [(manifest.data_files, self.positions_by_data_file)]
        found += [(own, self.positions_by_video_file(c)) for c, own in manifest.video_files.items()]
        number = manifest.episodes.number
        return {
            files[place]: number[positions]
            for files, parts in found
            for place, positions in enumerate(parts)
        }

    def rows_elsewhere(self, position: int) -> dict[str, int]:
        """Return how many rows of an episode are read from the data files behind its own, by file.

        Nothing, if all lie in its own, or the episode cannot be read.
        """
        start = int(self.manifest.episodes.start[position])
        stop = start + int(self.manifest.episodes.length[position])
        files = self.frames.files
        try:
            parts = files.parts(start, stop) if start < stop else []
        except (DatasetError, OSError):
            return {}  # a finding of its own
        return {
            files.path(part.file).relative_to(self.root).as_posix(): part.num_rows
            for part in parts[1:]
        }

    def number(self, position: int) -> int:
        """Return the number of an episode."""
        return int(self.manifest.episodes.number[position])

    def episode_finding(
        self,
        code: str,
        message: str,
        position: int,
        frames: tuple[int, int] | None = None,
        **more: Any,  # noqa: ANN401
    ) -> Finding:
        """Return a finding about frames ``[first, stop)`` of an episode, or all of them."""
        episodes = self.manifest.episodes
        first, stop = frames or (0, int(episodes.length[position]))
        start = int(episodes.start[position])
        rows = (start + first, start + stop)
        return finding(code, message, episode=self.number(position), rows=rows, **more)

    def with_episodes(self, found: Finding) -> Finding:
        """Return a finding that names the episodes of the one file that it is about."""
        if found.episode is not None or found.file is None or found.code not in _OF_ONE_FILE:
            return found
        numbers = self.numbers_by_file.get(found.file, np.zeros(0, np.int64))
        if len(numbers) == 1:
            return replace(found, episode=int(numbers[0]))
        said = f" It is stored for {name_episodes(numbers)}." if len(numbers) else ""
        return replace(found, message=found.message + said)

    def video_files(self) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
        """Yield camera, path and episodes' positions of each video file with a wanted episode."""
        for camera, files in self.manifest.video_files.items():
            for file, positions in enumerate(self.positions_by_video_file(camera)):
                if self.wanted[positions].any():
                    yield camera, files[file], positions


def _by_file(file: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    order = np.argsort(file, kind="stable")
    bounds = np.searchsorted(file[order], np.arange(count + 1))
    return np.split(order, bounds)[1:-1] if count else []
