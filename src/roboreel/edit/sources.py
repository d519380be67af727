"""A dataset that an edit reads from, and what its files say of themselves."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit.layout import Stored
from roboreel.errors import CorruptFileError, EditError, MissingFileError
from roboreel.format import read_manifest
from roboreel.format.hub import dataset_folder
from roboreel.format.json_files import read_object
from roboreel.format.paths import info_path
from roboreel.frames.frame_reader import FrameReader
from roboreel.io.budget import process_budget
from roboreel.io.kept_open import KeptOpen
from roboreel.io.sources import refuse_source, stat_below
from roboreel.parquet.arrow_types import is_numeric, plain_numbers
from roboreel.parquet.small_files import read_small_file
from roboreel.video.clip import images_of
from roboreel.video.splice import ImageSpan, can_begin_at, restarts_at, splice_key

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.parquet.small_files import SmallFile
    from roboreel.schema import Manifest
    from roboreel.video.packet_table import PacketTable

_tokens = count()
# A merge takes thousands of sources, one after the other.
_READERS: KeptOpen[str, FrameReader] = KeptOpen(limit=8)


@dataclass(frozen=True, slots=True)
class Cut:
    """Whether the packets of some frames can be a file of their own."""

    is_exact: bool
    """Whether decoding them takes no image before the first or after the last."""
    starts: tuple[int, ...] = ()
    """Frames of the episode at which a file can begin."""


class Source:
    """A dataset that an edit reads from. It is not changed.

    Args:
        path: The dataset's folder, or its address on the Hub if it is downloaded.

    Raises:
        NotADatasetError: There is no dataset at this path.
        EditError: Its metadata contradicts itself.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.root = dataset_folder(path)
        refuse_source(self.root, "edited or merged")
        self.manifest: Manifest = read_manifest(self.root)
        wrong = [one for one in self.manifest.problems if one.severity == "error"]
        if wrong:
            raise EditError(
                f"The metadata is wrong, so that it cannot be told what would stay: {wrong[0].message} "
                f"Run `roboreel repair` first: {str(self.root)!r}."
            )
        self._remember()

    def _remember(self) -> None:
        self._token = f"edited {next(_tokens)}"
        weakref.finalize(self, process_budget().drop_prefix, self._token).atexit = False
        self.stored = cache(self._list_stored)
        self._ordered: set[int] = set()
        self._first_image: dict[tuple[str, int], int] = {}
        """By camera and episode, where its images begin in their file, if they follow one another."""
        self._shared: set[int] = set()
        """Data files that are large, or hold other rows than those of one episode."""

    @cached_property
    def info(self) -> dict[str, Any]:
        """What info.json says."""
        return read_object(info_path(self.root))

    @property
    def frames(self) -> FrameReader:
        """Reads the data and the videos. Only the sources used last keep one, and files open."""
        return _READERS.get(self._token, self._begin_reading)

    def _begin_reading(self) -> FrameReader:
        self._ordered.clear()
        return FrameReader(self.manifest)

    def size_bytes(self, file: str) -> int:
        """Return the size of a file, by its path below the folder.

        Raises:
            MissingFileError: There is no such file.
        """
        try:
            return stat_below(self.root, file).st_size
        except FileNotFoundError:
            raise MissingFileError(
                f"The metadata names a file that is not there: restore it, or delete its episodes by "
                f"the same edit. Run `roboreel check`: {str(self.root / file)!r}."
            ) from None

    def first_row(self, episode: int) -> int:
        """Return the row of an episode's first frame inside its data file.

        Raises:
            CorruptFileError: The file does not hold the rows that the metadata lists.
        """
        if self.episode_file(episode) is not None:
            return 0
        table = self.manifest.episodes
        start, length = int(table.start[episode]), int(table.length[episode])
        part, *others = self.frames.files.parts(start, start + length)
        if others:
            raise CorruptFileError(
                f"The rows of episode {table.number[episode]} go on in the data files after its own, "
                "so it can be read, not edited: "
                f"{str(self.data_file(episode))!r}."
            )
        return part.first

    def data_file(self, episode: int) -> Path:
        """Return the data file of an episode."""
        return self.root / self.stored().path_of(episode)

    def episode_file(self, episode: int) -> SmallFile | None:
        """Return the data file of an episode if it is small and holds its rows alone.

        It is opened once, and held under the budget: before v3.0 there is one for each episode, and
        an edit comes back to them.
        """
        file = int(self.manifest.episodes.data_file[episode])
        if file in self._shared or self.stored().episodes_with(episode) != 1:
            return None
        key = (self._token, file)
        budget = process_budget()
        held: SmallFile | None = budget.get(key)
        if held is None:
            held = read_small_file(self.data_file(episode))
            if held is None or held.table.num_rows != self.manifest.episodes.length[episode]:
                self._shared.add(file)
                return None
            budget.put(key, held, held.size_bytes, owner="rows of small files")
        return held

    def _note_order(self, episode: int) -> None:
        """Note the order of an episode's rows, if its data file has been read."""
        if episode in self._ordered:
            return
        self._ordered.add(episode)
        small = self.episode_file(episode)
        if small is not None:
            self.note_rows(episode, small.table)

    def note_rows(self, episode: int, rows: Any) -> None:  # noqa: ANN401  # an Arrow table
        """Note the order of an episode's rows, all of which have just been read."""
        if "frame_index" not in rows.column_names:
            return
        numbers = rows.column("frame_index")
        if is_numeric(numbers.type) and not numbers.null_count:
            self.frames.clips.note_order(episode, plain_numbers(numbers))

    def images(self, camera: str, episode: int) -> NDArray[np.int64]:
        """Return the image of each frame of an episode, as its position among those of its file.

        Raises:
            MissingImageError: A frame has none.
            EditError: The rows of the episode are out of order.
        """
        self._note_order(episode)
        every = np.arange(int(self.manifest.episodes.length[episode]))
        request = self.frames.clips.request(camera, episode, every, every)
        if not np.array_equal(request.frames, every):
            raise EditError(
                f"The rows of episode {request.episode} are out of order. Run `roboreel repair` "
                f"first: {str(self.root)!r}."
            )
        table = self.frames.videos.table(request.path)
        clock = table.ticks, table.time_base
        return images_of(every, request.clip, *clock, request.times_of, step=table.step)

    def span(self, camera: str, episode: int, start: int, stop: int) -> ImageSpan:
        """Return the images of the frames ``[start, stop)`` of an episode.

        Raises:
            EditError: They do not follow one another in the video.
        """
        path, table = self.video(camera, episode)
        first = self._first_image.get((camera, episode))
        if first is not None:
            return ImageSpan.of(path, table, first + start, first + stop)
        every = self.images(camera, episode)
        images, follows = every[start:stop], np.diff(every) == 1
        if not follows[start : stop - 1].all():
            number = int(self.manifest.episodes.number[episode])
            raise EditError(
                f"The images of episode {number} of {camera!r} do not follow one another in the video, "
                f"so its packets cannot be copied alone: {str(self.root)!r}."
            )
        if follows.all():
            self._first_image[camera, episode] = int(every[0])
        return ImageSpan.of(path, table, int(images[0]), int(images[-1]) + 1)

    def video_file(self, camera: str, episode: int) -> str:
        """Return the path below the folder of the video that shows an episode."""
        stored = self.stored(camera)
        if stored.file[episode] < 0:
            number = int(self.manifest.episodes.number[episode])
            raise MissingFileError(
                f"The metadata names no video of {camera!r} for episode {number}: delete the episode, "
                f"or remove the camera, by the same edit: {str(self.root)!r}."
            )
        return stored.path_of(episode)

    def video(self, camera: str, episode: int) -> tuple[Path, PacketTable]:
        """Return the video that shows an episode, and its packets."""
        path = self.root / self.video_file(camera, episode)
        return path, self.frames.videos.table(path)

    def coding(self, camera: str, episode: int) -> Hashable:
        """Return a key that is equal for videos whose packets can share a file; None if none can."""
        path, table = self.video(camera, episode)
        key = splice_key(table)
        return key if key and len(table.size) and restarts_at(path, table, 0) else None

    def _list_stored(self, camera: str | None = None) -> Stored:
        """Return the videos of a camera, or the data files, and what each holds."""
        return Stored.of(self.manifest, camera)

    def has_unused(self, camera: str, episode: int) -> bool:
        """Return whether the video of an episode has images that belong to no episode."""
        frames = self.stored(camera).frames_with(episode)
        return len(self.video(camera, episode)[1].size) > frames

    def cut(self, camera: str, episode: int, start: int, stop: int, *, joined: bool) -> Cut:
        """Return whether some frames of an episode can be a file of their own, or part of one.

        Args:
            camera: The camera.
            episode: Position of the episode.
            start: Its first frame that is wanted.
            stop: The frame after the last.
            joined: Whether they come behind others in the file.
        """
        span = self.span(camera, episode, start, stop)
        if splice_key(span.table) is None:
            return Cut(is_exact=False)

        def fits(packet: int) -> bool:
            return (restarts_at if joined else can_begin_at)(span.path, span.table, packet)

        if span.is_exact and fits(int(span.needed[0])):
            return Cut(is_exact=True)
        packets = span.table.shown[self.images(camera, episode)]
        keyframes = np.flatnonzero(span.table.keyframe[packets]).tolist()
        return Cut(is_exact=False, starts=tuple(f for f in keyframes if fits(int(packets[f]))))

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "manifest": self.manifest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._remember()
