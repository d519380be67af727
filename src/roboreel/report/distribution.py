"""The distribution of a feature's values. Arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_ELEMENTS", "Distribution", "spread"]

MOST_ELEMENTS = 32
"""Features with more elements show only their first ones."""

_BINS = 32
_LEVELS = (0.01, 0.5, 0.99)


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
    low, median, high = np.quantile(finite, _LEVELS).tolist()
    minimum, maximum = float(finite.min()), float(finite.max())
    # Otherwise one extreme value would squeeze all others into a single bar.
    reach = 0.5 * (high - low) or np.inf
    edges = max(minimum, low - reach), min(maximum, high + reach)
    bins, _ = np.histogram(np.clip(finite, *edges), bins=_BINS, range=_widened(edges))
    mean, std = float(finite.mean()), float(finite.std())
    return Distribution(label, minimum, low, median, high, maximum, mean, std, broken, bins, edges)


def _widened(edges: tuple[float, float]) -> tuple[float, float]:
    """Return a range that is never empty, even if all values are equal."""
    return edges if edges[1] > edges[0] else (edges[0] - 0.5, edges[0] + 0.5)
