"""Distinct numbers of an array.

NumPy's `unique` imports its masked arrays at the first call, which takes longer than opening a
dataset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each value once, ascending.

    Examples:
        >>> distinct(np.array([5, 2, 5])).tolist()
        [2, 5]
    """
    ordered = np.sort(values, axis=None)
    return ordered[_is_new(ordered)]


def numbered(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each value once, ascending, and the place of every value among them.

    Examples:
        >>> [part.tolist() for part in numbered(np.array([5, 2, 5]))]
        [[2, 5], [1, 0, 1]]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_new = _is_new(ordered)
    places = np.empty(len(values), np.int64)
    places[order] = np.cumsum(is_new) - 1
    return ordered[is_new], places


def _is_new(ordered: NDArray[np.int64]) -> NDArray[np.bool_]:
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return is_new
