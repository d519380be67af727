"""Whether the robot moves while a camera shows the same image."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import DatasetError
from roboreel.format.counters import COUNTERS
from roboreel.format.statistics import read_stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.frames.frame_reader import FrameReader

# A joint moves if it crosses this part of its whole range.
_MOVES = 0.05


class Movement:
    """Looks at the numbers of a dataset, stretch by stretch."""

    def __init__(self, frames: FrameReader) -> None:
        self._frames = frames
        floats = [
            name
            for name, feature in frames.manifest.features.items()
            if feature.kind == "number" and feature.dtype.startswith("float")
        ]
        self._names = [name for name in floats if name not in COUNTERS]

    def moves(self, start: int, stop: int) -> bool | None:
        """Return whether anything moves in the rows ``[start, stop)`` of one episode.

        None if there are no numbers, or they cannot be read.
        """
        if not self._names or stop - start < 2:
            return None
        try:
            values = self._frames.columns.read_span(self._names, start, stop)
        except (DatasetError, OSError):
            return None
        return any(self._crosses(name, values[name]) for name in self._names)

    def _crosses(self, name: str, values: NDArray[np.float64]) -> bool:
        flat = np.nan_to_num(values.reshape(len(values), -1).astype(np.float64))
        crossed = flat.max(axis=0) - flat.min(axis=0)
        whole = self._ranges.get(name)
        if whole is None or whole.size != crossed.size:
            return bool((crossed > 0).any())
        return bool(((crossed > _MOVES * whole) & (crossed > 0)).any())

    @cached_property
    def _ranges(self) -> dict[str, NDArray[np.float64]]:
        try:
            stats = read_stats(self._frames.manifest)
        except (DatasetError, OSError):
            return {}
        return {name: np.nan_to_num(one.max - one.min).reshape(-1) for name, one in stats.items()}


def runs_of(flags: NDArray[np.bool_], least: int) -> list[tuple[int, int]]:
    """Return the spans in which at least this many flags in a row are set.

    Examples:
        >>> runs_of(np.array([True, True, False, True, True, True]), 3)
        [(3, 6)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    spans = edges.reshape(-1, 2)
    return [(int(a), int(b)) for a, b in spans[spans[:, 1] - spans[:, 0] >= least]]
