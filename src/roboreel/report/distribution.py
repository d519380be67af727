"""The distribution of a feature's values. Arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ELEMENTS = 32
"""Features with more elements show only their first ones."""

_BINS = 32
_LEVELS = (0.01, 0.5, 0.99)
# NumPy before 2 divides the number of bins by the range, which must not overflow.
_LEAST_RANGE = 2.0**-1000


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """The values of one element of a feature."""

    label: str
    minimum: float
    low: float
    """A hundredth of the values are smaller."""
    median: float
    high: float
    """A hundredth of the values are larger."""
    maximum: float
    mean: float
    std: float
    broken: int
    """How many values are not finite; only the others are described."""
    bins: NDArray[np.int64]
    """Counts in bins of equal width over ``edges``; the outermost also count what lies outside."""
    edges: tuple[float, float]

    @property
    def is_constant(self) -> bool:
        """Whether all values are the same."""
        return self.minimum == self.maximum

    @property
    def has_outliers(self) -> bool:
        """Whether the extremes lie far from 98 % of the values."""
        reach = 5 * (self.high - self.low)
        far = self.maximum > self.high + reach or self.minimum < self.low - reach
        return reach > 0 and far


def spread(values: NDArray[Any], labels: list[str]) -> list[Distribution]:
    """Return the distribution of each element.

    Args:
        values: Numbers ``(N, D)``.
        labels: The name of each element, ``(D,)``.
    """
    columns = values.astype(np.float64).T
    return [_spread(column, label) for column, label in zip(columns, labels, strict=True)]


def _spread(column: NDArray[np.float64], label: str) -> Distribution:
    finite = column[np.isfinite(column)]
    broken = len(column) - len(finite)
    if not len(finite):
        nan, bins = float("nan"), np.zeros(_BINS, np.int64)
        return Distribution(label, nan, nan, nan, nan, nan, nan, nan, broken, bins, (0.0, 1.0))
    minimum, maximum = float(finite.min()), float(finite.max())
    # Differences and squares of very large values would overflow.
    unit = 2.0**520 if max(-minimum, maximum) > 1e150 else 1.0
    scaled = finite / unit
    low, median, high = np.quantile(scaled, _LEVELS).tolist()
    # Otherwise one extreme value would squeeze all others into a single bar.
    reach = 0.5 * (high - low) or np.inf
    start, stop = max(minimum / unit, low - reach), min(maximum / unit, high + reach)
    bins, _ = np.histogram(np.clip(scaled, start, stop), _BINS, range=_widened(start, stop))
    low, median, high = (min(max(q * unit, minimum), maximum) for q in (low, median, high))
    mean, std = float(scaled.mean()) * unit, float(scaled.std()) * unit
    edges = (start * unit, stop * unit)
    return Distribution(label, minimum, low, median, high, maximum, mean, std, broken, bins, edges)


def _widened(start: float, stop: float) -> tuple[float, float]:
    """Return a range that can be cut into bins, even if all values are equal or nearly so."""
    # Rounding must not make two borders of bins equal: some floats have to lie between them.
    least = 4 * _BINS * float(np.spacing(max(abs(start), abs(stop))))
    least = max(least, _LEAST_RANGE)
    if stop - start >= least:
        return start, stop
    margin = max(0.5 if start == stop else 0.0, least)
    return start - margin, stop + margin
