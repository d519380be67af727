"""Quantiles of more values than fit in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CAPACITY = 4096
"""Values per level of a sketch, by default."""


class QuantileSketch:
    """A small summary of many values that gives any quantile, for D elements at once.

    A value on level h stands for 2^h values. When a level is full it is sorted, every second value
    moves up a level, and the others are dropped, which shifts any rank by at most 2^h. Which half
    stays depends on the values alone, so the same data gives the same sketch everywhere, and shifts
    do not add up in one direction. The error of a quantile's rank is at most about
    ``log2(num_values / capacity) / capacity`` of the values: with 4,096, 0.2 % of a million values.
    Typical errors are several times smaller.

    Args:
        size: Number of elements, D.
        capacity: Values per level, an even number. Up to this many values, quantiles are exact.
    """

    def __init__(self, size: int, capacity: int = CAPACITY) -> None:
        if capacity < 2 or capacity % 2:
            raise ValueError(f"The capacity must be an even number, 2 or more, not {capacity}.")
        self.size = size
        self.capacity = capacity
        self._levels: list[NDArray[np.float64]] = []
        self._filled: list[int] = []

    def insert(self, values: NDArray[np.float64], level: int = 0) -> None:
        """Add values ``(D, N)`` without NaN, each of which stands for ``2**level`` values."""
        while level >= len(self._levels):
            self._levels.append(np.empty((self.size, self.capacity)))
            self._filled.append(0)
        held = self._levels[level]
        taken = 0
        while taken < values.shape[1]:
            if self._filled[level] == self.capacity:
                self._filled[level] = 0
                self.insert(_every_second(held), level + 1)
            start = self._filled[level]
            piece = values[:, taken : taken + self.capacity - start]
            held[:, start : start + piece.shape[1]] = piece
            self._filled[level] += piece.shape[1]
            taken += piece.shape[1]

    def levels(self) -> list[NDArray[np.float64]]:
        """Return copies of the values on each level, each ``(D, N)``."""
        parts = zip(self._levels, self._filled, strict=True)
        return [held[:, :filled].copy() for held, filled in parts]

    def merge(self, other: QuantileSketch) -> None:
        """Add all values of another sketch; the error bound is that of all values together."""
        if (other.size, other.capacity) != (self.size, self.capacity):
            raise ValueError(
                f"Cannot merge a sketch of {other.size} elements and capacity {other.capacity} "
                f"into one of {self.size} elements and capacity {self.capacity}."
            )
        for level, (held, filled) in enumerate(zip(other._levels, other._filled, strict=True)):
            self.insert(held[:, :filled], level)

    def quantiles(
        self,
        fractions: Sequence[float],
        *,
        count: NDArray[np.int64],
        ceiling: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the quantiles of each element's finite values.

        Args:
            fractions: F numbers between 0 and 1.
            count: How many values of an element are finite, ``(D,)``; the others are infinite.
            ceiling: The highest finite value, ``(D,)``.

        Returns:
            ``(F, D)``, interpolated as NumPy does; meaningless where the count is 0.
        """
        found = np.zeros((len(fractions), self.size))
        if not self._levels:
            return found
        if len(self._levels) == 1:
            held = self._levels[0][:, : self._filled[0]]
            return quantiles_of(held, fractions, count=count, ceiling=ceiling)
        parts = list(zip(self._levels, self._filled, strict=True))
        weight = np.repeat([1 << level for level in range(len(parts))], self._filled)
        for element in range(self.size):
            values = np.concatenate([held[element, :filled] for held, filled in parts])
            order = np.argsort(values)
            values = np.minimum(values[order], ceiling[element])
            found[:, element] = values_at(fractions, values, weight[order], int(count[element]))
        return found


def values_at(
    fractions: Sequence[float],
    values: NDArray[np.float64],
    weights: NDArray[np.int64],
    count: int,
) -> NDArray[np.float64]:
    """Return the quantiles of ``count`` values, of which each entry stands for some."""
    place = np.asarray(fractions) * max(count - 1, 0)
    below = np.floor(place).astype(np.int64)
    last_rank = np.cumsum(weights)
    low, high = (
        values[np.minimum(np.searchsorted(last_rank, rank, side="right"), len(values) - 1)]
        for rank in (below, below + 1)
    )
    # An element without finite values has only infinity to interpolate.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(low + (high - low) * (place - below))


def quantiles_of(
    values: NDArray[np.float64],
    fractions: Sequence[float],
    *,
    count: NDArray[np.int64],
    ceiling: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return what a sketch does that has room for all values ``(D, N)``."""
    values = np.minimum(np.sort(values, axis=1), ceiling[:, None])
    place = np.asarray(fractions)[:, None] * np.maximum(count - 1, 0)
    below = np.floor(place).astype(np.int64)
    element, last = np.arange(len(values)), values.shape[1] - 1
    low, high = (values[element, np.minimum(rank, last)] for rank in (below, below + 1))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(low + (high - low) * (place - below))


def _every_second(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sort values ``(D, K)`` in place and return every second one, ``(D, K / 2)``."""
    bits = np.bitwise_xor.reduce(values.view(np.uint64), axis=1)
    upper = (bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(63)
    values.sort(axis=1)
    return np.where(upper[:, None].astype(bool), values[:, 1::2], values[:, 0::2])
