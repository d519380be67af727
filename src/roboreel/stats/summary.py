"""The statistics of a feature, as datasets store them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

QUANTILES: Mapping[str, float] = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
"""The quantiles in a dataset's statistics, by name."""

_FLOATS, _COUNTS = ("min", "max", "mean", "std"), ("count", "nan_count")


@dataclass(frozen=True, slots=True, eq=False)
class FeatureStats:
    """How the values of one feature are distributed, element by element.

    Only finite values count. An element without finite values is NaN in all statistics. Every field
    is broadcast to the shape of ``mean``, so a single count may be given for all elements.
    """

    min: NDArray[np.float64]
    max: NDArray[np.float64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    """Population standard deviation: divided by ``count``, not by ``count - 1``."""
    count: NDArray[np.int64]
    """Finite values of each element; images, for cameras."""
    quantiles: Mapping[str, NDArray[np.float64]]
    """By the names in `QUANTILES`; empty if a dataset has none."""
    nan_count: NDArray[np.int64] = field(default_factory=lambda: np.zeros((), np.int64))
    """Values of each element that were NaN or infinite, and do not count."""

    def __post_init__(self) -> None:
        shape = np.shape(self.mean)
        for name in _FLOATS:
            object.__setattr__(self, name, _broadcast(getattr(self, name), shape, np.float64))
        for name in _COUNTS:
            object.__setattr__(self, name, _broadcast(getattr(self, name), shape, np.int64))
        quantiles = {
            name: _broadcast(values, shape, np.float64) for name, values in self.quantiles.items()
        }
        object.__setattr__(self, "quantiles", quantiles)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of each statistic."""
        return self.mean.shape

    def per_frame(self, shape: tuple[int, ...]) -> FeatureStats:
        """Return them with frames for counts, as LeRobot has them.

        Args:
            shape: That of a frame's value. Statistics over the last axis count each of its rows.
        """
        each = math.prod(shape) // max(self.mean.size, 1)
        if each <= 1:
            return self
        # Rounded up: a frame of which some values are finite counts.
        count, nan_count = -(-self.count // each), self.nan_count // each
        return replace(self, count=count, nan_count=nan_count)

    def part(self, start: int, stop: int, shape: tuple[int, ...]) -> FeatureStats:
        """Return the statistics of the elements ``[start, stop)`` of a flat feature, in a shape."""

        def cut(values: NDArray[Any]) -> NDArray[Any]:
            return values[start:stop].reshape(shape)

        # Without `__post_init__`: these have one shape already, and nobody else has their memory.
        part = object.__new__(FeatureStats)
        for name in (*_FLOATS, *_COUNTS):
            object.__setattr__(part, name, cut(getattr(self, name)))
        quantiles = {name: cut(values) for name, values in self.quantiles.items()}
        object.__setattr__(part, "quantiles", quantiles)
        return part

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeatureStats):
            return NotImplemented
        return (
            all(
                np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
                for name in (*_FLOATS, *_COUNTS)
            )
            and self.quantiles.keys() == other.quantiles.keys()
            and all(
                np.array_equal(values, other.quantiles[name], equal_nan=True)
                for name, values in self.quantiles.items()
            )
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside: comparable, not hashable


def shape_of_stats(shape: tuple[int, ...], stored: FeatureStats | None) -> tuple[int, ...]:
    """Return the shape for new statistics of a feature: LeRobot's, over the last axis, if it has that.

    Args:
        shape: That of a frame's value.
        stored: The statistics that there are.
    """
    last = shape[-1:]
    return last if stored is not None and len(shape) > 1 and stored.shape == last else shape


def _broadcast(values: ArrayLike, shape: tuple[int, ...], dtype: type) -> NDArray[np.generic]:
    array: NDArray[np.generic] = np.asarray(values, dtype=dtype)
    if array.shape == shape:
        return array.copy()
    # A single number, in any shape, serves all elements.
    return np.broadcast_to(array.reshape(()) if array.size == 1 else array, shape).copy()
