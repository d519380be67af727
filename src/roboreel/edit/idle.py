"""Where an episode moves: the frames before and after are idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import DatasetError
from roboreel.format.counters import COUNTERS
from roboreel.format.statistics import read_stats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.edit.sources import Source

# A joint stands still if it changes by less than this part of its range from frame to frame.
_STILL = 1 / 500
_MARGIN = 2


def moving_span(source: Source, episode: int) -> tuple[int, int]:
    """Return the frames of an episode from the first that moves to the last, and a margin.

    An episode that never moves stays as it is.
    """
    table, features = source.manifest.episodes, source.manifest.features
    start, length = int(table.start[episode]), int(table.length[episode])
    names = [n for n, f in features.items() if f.dtype.startswith("float") and n not in COUNTERS]
    # What the robot did, rather than rewards and the like, where the names tell.
    robot = [n for n in names if n.startswith(("observation.", "action"))] or names
    values = source.frames.columns.read_span(robot, start, start + length) if robot else {}
    return moving_frames(values, _ranges(source), length)


def moving_frames(
    values: Mapping[str, NDArray[np.float64]],
    ranges: Mapping[str, NDArray[np.float64]],
    length: int,
) -> tuple[int, int]:
    """Return the frames from the first movement to the last.

    Args:
        values: Numbers of each frame, ``(T, …)``, by feature.
        ranges: Largest less smallest value of each element, by feature, where it is known.
        length: Frames of the episode.

    Examples:
        >>> x = np.array([0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3.0]).reshape(-1, 1)
        >>> moving_frames({"x": x}, {}, 12)
        (2, 10)
    """
    moves = np.zeros(max(length - 1, 0), bool)
    for name, one in values.items():
        flat = np.nan_to_num(np.asarray(one, np.float64).reshape(length, -1))
        own = flat.max(axis=0) - flat.min(axis=0)
        whole = ranges.get(name, own)
        whole = whole if whole.size == own.size else own
        moves |= (np.abs(np.diff(flat, axis=0)) > _STILL * np.maximum(whole, own)).any(axis=1)
    if not moves.any():
        return 0, length
    places = np.flatnonzero(moves)
    first, last = int(places[0]), int(places[-1]) + 2
    return max(0, first - _MARGIN), min(length, last + _MARGIN)


def _ranges(source: Source) -> dict[str, NDArray[np.float64]]:
    try:
        stats = read_stats(source.manifest)
    except (DatasetError, OSError):
        return {}
    return {name: np.nan_to_num(one.max - one.min).reshape(-1) for name, one in stats.items()}
