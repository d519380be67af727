"""Statistics of the whole dataset, which grow by an episode at a time, over several sessions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np

from roboreel.commit import Workshop
from roboreel.files import atomic_file, sync_file
from roboreel.format.statistics import read_episode_stats
from roboreel.frames.frame_reader import FrameReader
from roboreel.io.reading import check_small
from roboreel.stats import Accumulator, gather, merge_stats, new_accumulator
from roboreel.stats.gather import add_part, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Feature, Manifest
    from roboreel.stats import FeatureStats
    from roboreel.stats.gather import Gathered

_MOST_BYTES = 64 * 1024**2


class Totals:
    """The statistics of all episodes together, from what each of them gathered.

    Numbers always have true quantiles: what was not remembered is read from the data files again.
    Images are remembered too. Where that is missing, since others wrote the episodes, the statistics
    in the metadata stand in, whose quantiles are averages.
    """

    def __init__(self, features: Mapping[str, Feature]) -> None:
        self._features = features
        self._gathered = {
            name: new_accumulator(feature)
            for name, feature in features.items()
            if not feature.is_text
        }
        self._summaries: dict[str, FeatureStats] = {}

    @classmethod
    def restore(cls, manifest: Manifest) -> Totals:
        """Return the totals of the episodes that a dataset has."""
        totals = cls(manifest.features)
        cameras = [name for name, f in manifest.features.items() if f.is_camera]
        numbers = [name for name in totals._gathered if name not in cameras]
        seen = totals._load(_path(manifest.root, "numbers"), numbers, manifest)
        totals._read_rows(manifest, numbers, seen)
        seen = totals._load(_path(manifest.root, "cameras"), cameras, manifest)
        if cameras and seen < len(manifest.episodes):
            totals._read_summaries(manifest, cameras, seen)
        return totals

    def take(self, episode: Mapping[str, Gathered]) -> None:
        """Add what an episode gathered."""
        for name, part in episode.items():
            add_part(self._gathered, name, part)

    def finish(self) -> dict[str, FeatureStats]:
        """Return the statistics of all episodes."""
        stats = {name: gathered.finish() for name, gathered in self._gathered.items()}
        return stats | {
            name: merge_stats([summary, stats[name]]) for name, summary in self._summaries.items()
        }

    def remember(self, root: Path, episodes: int, rows: int, *, numbers: bool) -> None:
        """Leave what was gathered for the next recorder, as a shortcut.

        Args:
            root: The dataset's folder.
            episodes: How many episodes it is of.
            rows: How many frames they have.
            numbers: Whether to write the statistics of numbers or those of cameras.
        """
        names = [n for n in self._gathered if self._features[n].is_camera is not numbers]
        numbered = {str(i): self._gathered[name] for i, name in enumerate(names)}
        arrays = packed(numbered, separator=".")
        about = {"names": names, "episodes": episodes, "rows": rows}
        arrays["about"] = np.array(json.dumps(about))
        path = _path(root, "numbers" if numbers else "cameras")
        # The bytes are synced, so that a power cut leaves the old file or the new one. Which of
        # them does not matter: the new name is not waited for.
        with atomic_file(path, sync=False) as temporary:
            np.savez(temporary, **arrays)  # type: ignore[arg-type]  # names are numbered
            sync_file(temporary)

    def _load(self, path: Path, names: list[str], manifest: Manifest) -> int:
        """Load what was remembered; return of how many episodes it is."""
        lengths = manifest.episodes.length
        try:
            _check_size(path)
            with np.load(path, allow_pickle=False) as held:
                about = json.loads(str(held["about"]))
                episodes = int(about["episodes"])
                if about["names"] != names or int(lengths[:episodes].sum()) != about["rows"]:
                    return 0
                shapes = {str(i): self._shape(name) for i, name in enumerate(names)}
                parts = unpacked(held, shapes, separator=".")
            gathered = {name: parts[str(i)] for i, name in enumerate(names)}
        except Exception:  # noqa: BLE001  # NumPy and zipfile have one for each kind of damage
            return 0  # It is made again, of what it was made of.
        self._gathered |= gathered
        return min(episodes, len(lengths))

    def _shape(self, name: str) -> tuple[int, ...]:
        part = self._gathered[name]
        return part.shape if isinstance(part, Accumulator) else ()

    def _read_rows(self, manifest: Manifest, names: list[str], seen: int) -> None:
        columns = FrameReader(manifest).columns
        rows = int(manifest.episodes.length[:seen].sum()), manifest.episodes.num_rows

        def read(rows: NDArray[np.int64], names: list[str]) -> dict[str, NDArray[Any]]:
            return {name: columns.gather(name, rows) for name in names}

        parts = [(name, self._gathered[name]) for name in names]
        gather(parts, self._features, rows, read)

    def _read_summaries(self, manifest: Manifest, cameras: list[str], seen: int) -> None:
        parts: dict[str, list[FeatureStats]] = {}
        for number, stats in read_episode_stats(manifest):
            if number >= seen:
                for name in cameras:
                    if name in stats:
                        parts.setdefault(name, []).append(stats[name])
        self._summaries = {name: merge_stats(several) for name, several in parts.items()}


def _check_size(path: Path) -> None:
    """Raise if a file would unpack to more than such files hold: it may come from elsewhere."""
    check_small(path.stat().st_size, path, most_bytes=_MOST_BYTES)
    with ZipFile(path) as members:
        unpacked = sum(member.file_size for member in members.infolist())
    check_small(unpacked, path, most_bytes=_MOST_BYTES)


def _path(root: Path, name: str) -> Path:
    return Workshop(root).path / f"{name}.npz"
