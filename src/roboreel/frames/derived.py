"""Counters that data files do not have, derived from where the rows lie."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.format.counters import COUNTERS, EPISODE_NUMBER, TASK_NUMBER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.frames.frame_files import FrameFiles
    from roboreel.schema import Manifest

__all__ = ["DerivedCounters"]


class DerivedCounters:
    """The counters of rows whose files leave them out, as GR00T's datasets do."""

    def __init__(self, manifest: Manifest, files: FrameFiles) -> None:
        self._manifest = manifest
        self._files = files

    def can_derive(self, name: str) -> bool:
        """Return whether a feature is a counter."""
        return name in COUNTERS

    def derive(self, name: str, file: int, start: int, stop: int) -> NDArray[Any]:
        """Return a counter at the rows ``[start, stop)`` of a file; 0 for rows of no episode.

        A task is the number of the episode's first task; -1 if the table of tasks does not have it.
        """
        there = self._files.rows_of_span(file, start, stop)
        values = np.zeros(stop - start, self._manifest.features[name].numpy_dtype)
        values[there.places] = self._values(name, there.rows)
        return values

    def _values(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        if name == "index":
            return rows
        episodes = self._manifest.episodes
        positions = self._files.episodes_of(rows)
        if name == EPISODE_NUMBER:
            return episodes.number[positions]
        if name == TASK_NUMBER:
            return self._tasks[positions]
        frames = rows - episodes.start[positions]
        return frames if name == "frame_index" else frames / self._manifest.fps

    @cached_property
    def _tasks(self) -> NDArray[np.int64]:
        """The number of each episode's first task, ``(E,)``."""
        episodes = self._manifest.episodes
        numbers: dict[str, int] = {}
        for number, text in self._manifest.tasks.items():
            numbers.setdefault(text, number)
        known = np.array([numbers.get(text, -1) for text in episodes.task_texts], np.int64)
        first, has_one = episodes.task_bounds[:-1], np.diff(episodes.task_bounds) > 0
        codes = np.full(len(episodes), -1, np.int64)
        codes[has_one] = known[episodes.task_codes[first[has_one]]]
        return codes
