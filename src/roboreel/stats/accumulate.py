"""The statistics of a feature, accumulated batch by batch."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.stats.moments import Moments
from roboreel.stats.sketch import CAPACITY, QuantileSketch, quantiles_of
from roboreel.stats.summary import QUANTILES, FeatureStats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

_LEVEL_VALUES = 1 << 21
_CHUNK_VALUES = 1 << 18


class Accumulator:
    """Accumulates the statistics of one feature over any number of batches, in bounded memory.

    Mean, deviation, extremes and counts are exact, in float64. Quantiles come from a
    `QuantileSketch`: exact up to its capacity, and within its error bound beyond.

    Args:
        shape: Shape of one value; values of shape ``(1,)`` may also be given as scalars.
        capacity: How many values per element the sketch holds exactly. By default 4,096, or fewer
            for features of more than 512 elements, so that a level of the sketch takes 16 MB.

    Examples:
        >>> accumulator = Accumulator((2,))
        >>> accumulator.update(np.array([[1.0, 5.0], [3.0, 5.0]]))
        >>> stats = accumulator.finish()
        >>> stats.mean, stats.std
        (array([2., 5.]), array([1., 0.]))
    """

    def __init__(self, shape: tuple[int, ...], *, capacity: int | None = None) -> None:
        self.shape = shape
        size = math.prod(shape)
        if capacity is None:
            capacity = _capacity(size)
        self.sketch = QuantileSketch(size, capacity)
        self._moments = Moments.nothing(size)
        self._num_values = 0

    def update(self, values: ArrayLike) -> None:
        """Add values ``(N, *shape)`` of any numeric type; booleans count as 0 and 1.

        Raises:
            TypeError: The values are not numbers.
            ValueError: They have the wrong shape.
        """
        rows = self._as_rows(np.asarray(values))
        # In pieces, so that the float64 copies stay in the processor's cache.
        step = max(1, _CHUNK_VALUES // max(rows.shape[1], 1))
        for start in range(0, len(rows), step):
            piece = rows[start : start + step].T.astype(np.float64, order="C")
            finite = np.isfinite(piece)
            self._moments = self._moments.plus(Moments.of(piece, finite))
            # Above all finite values, where they change no rank.
            piece[~finite] = np.inf
            self.sketch.insert(piece)
        self._num_values += len(rows)

    def merge(self, other: Accumulator) -> None:
        """Add all values of another accumulator, which stays unchanged.

        Raises:
            ValueError: The accumulators differ in shape or capacity.
        """
        if other.shape != self.shape:
            raise ValueError(f"Cannot add statistics of shape {other.shape} to {self.shape}.")
        self.sketch.merge(other.sketch)
        self._moments = self._moments.plus(other._moments)
        self._num_values += other._num_values

    def finish(self) -> FeatureStats:
        """Return the statistics of all values so far; more may follow."""
        moments = self._moments
        quantiles = self.sketch.quantiles(
            list(QUANTILES.values()), count=moments.count, ceiling=moments.max
        )
        return moments.as_stats(
            self.shape,
            quantiles=dict(zip(QUANTILES, quantiles, strict=True)),
            nan_count=self._num_values - moments.count,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays, from which `from_state` continues."""
        moments = {field.name: getattr(self._moments, field.name) for field in fields(Moments)}
        levels = {f"level{i}": values for i, values in enumerate(self.sketch.levels())}
        return {**moments, **levels, "num_values": np.array(self._num_values)}

    @classmethod
    def from_state(cls, shape: tuple[int, ...], state: Mapping[str, NDArray[Any]]) -> Accumulator:
        """Return an accumulator in the state of another one.

        Raises:
            KeyError: The state is incomplete.
            ValueError: The state belongs to another shape.
        """
        accumulator = cls(shape)
        moments = Moments(**{field.name: state[field.name] for field in fields(Moments)})
        if moments.count.shape != (accumulator.sketch.size,):
            raise ValueError(f"The state has {moments.count.shape} elements, not {shape}.")
        accumulator._moments = moments
        accumulator._num_values = int(state["num_values"])
        for level in range(len(state)):
            if f"level{level}" not in state:
                break
            accumulator.sketch.insert(np.asarray(state[f"level{level}"], np.float64), level)
        return accumulator

    def _as_rows(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        if values.dtype.kind not in "biuf":
            raise TypeError(f"Statistics need numbers, not values of type {values.dtype}.")
        scalars = self.shape == (1,) and values.ndim == 1
        if values.ndim == 0 or (values.shape[1:] != self.shape and not scalars):
            raise ValueError(
                f"Values must have shape (N, {', '.join(map(str, self.shape))}), not {values.shape}."
            )
        return values.reshape(len(values), math.prod(self.shape))


def stats_of(values: Mapping[str, NDArray[Any]]) -> dict[str, FeatureStats]:
    """Return the statistics of several features, as an `Accumulator` for each would.

    Small ones are counted together, as elements of one: most of the work on few values is calling
    NumPy.

    Args:
        values: By feature, ``(N, *shape)``. Features may differ in ``N``: statistics over the last
            axis count every row of a matrix.
    """
    found: dict[str, FeatureStats] = {}
    together: dict[str, NDArray[Any]] = {}
    elements = rows = 0
    for name, own in values.items():
        elements += _size(own)
        if elements > _LEVEL_VALUES // CAPACITY or len(own) != rows:
            found |= _stats_together(together)
            together, elements, rows = {}, _size(own), len(own)
        together[name] = own
    found |= _stats_together(together)
    return {name: found[name] for name in values}


def _stats_together(values: Mapping[str, NDArray[Any]]) -> dict[str, FeatureStats]:
    if not values:
        return {}
    rows = [own.reshape(len(own), _size(own)).astype(np.float64) for own in values.values()]
    joint = _stats_of_rows(np.concatenate(rows, axis=1))
    found, start = {}, 0
    for name, own in values.items():
        stop = start + _size(own)
        found[name] = joint.part(start, stop, own.shape[1:])
        start = stop
    return found


def _stats_of_rows(rows: NDArray[np.float64]) -> FeatureStats:
    """Return what an `Accumulator` does for rows ``(N, D)``; few need no room to be kept in."""
    count, size = rows.shape
    if count > _capacity(size) or rows.size > _CHUNK_VALUES:
        accumulator = Accumulator((size,))
        accumulator.update(rows)
        return accumulator.finish()
    values = np.ascontiguousarray(rows.T)
    finite = np.isfinite(values)
    moments = Moments.of(values, finite)
    values[~finite] = np.inf
    quantiles = np.zeros((len(QUANTILES), size))
    if count:
        fractions = list(QUANTILES.values())
        quantiles = quantiles_of(values, fractions, count=moments.count, ceiling=moments.max)
    return moments.as_stats(
        (size,),
        quantiles=dict(zip(QUANTILES, quantiles, strict=True)),
        nan_count=count - moments.count,
    )


def _size(values: NDArray[Any]) -> int:
    return math.prod(values.shape[1:])


def _capacity(size: int) -> int:
    """Return how many values per element a sketch holds exactly."""
    return min(CAPACITY, max(64, _LEVEL_VALUES // max(size, 1) // 2 * 2))
