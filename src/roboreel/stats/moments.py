"""Counts, extremes, mean and spread, which merge exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.stats.summary import FeatureStats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments per element, ``(D,)``; zeros and infinities where there were no values.

    Those of several segments of rows are ``(S, D)``.
    """

    count: NDArray[np.int64]
    min: NDArray[np.float64]
    max: NDArray[np.float64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    """Sum of the squared distances from the mean."""

    @property
    def std(self) -> NDArray[np.float64]:
        """The standard deviation; 0 where nothing was seen."""
        return np.sqrt(self.spread / np.maximum(self.count, 1))

    @staticmethod
    def nothing(size: int) -> Moments:
        """Return the moments of no values."""
        return Moments.of(np.empty((size, 0)), np.empty((size, 0), bool))

    @staticmethod
    def of(values: NDArray[np.float64], finite: NDArray[np.bool_]) -> Moments:
        """Return the moments of the values ``(D, N)`` that are marked as finite."""
        count = finite.sum(axis=1)
        # Squares of values beyond 1e154 overflow: the deviation is then not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            mean = values.sum(axis=1, where=finite, initial=0.0) / np.maximum(count, 1)
            distance = np.subtract(values, mean[:, None], where=finite, out=np.zeros_like(values))
            spread = np.einsum("dn,dn->d", distance, distance)
        return Moments(
            count,
            values.min(axis=1, where=finite, initial=np.inf),
            values.max(axis=1, where=finite, initial=-np.inf),
            mean,
            spread,
        )

    @staticmethod
    def from_stats(stats: FeatureStats) -> Moments:
        """Return the moments behind a summary."""
        count = stats.count.reshape(-1)
        seen = count > 0
        return Moments(
            count,
            np.where(seen, stats.min.reshape(-1), np.inf),
            np.where(seen, stats.max.reshape(-1), -np.inf),
            np.where(seen, stats.mean.reshape(-1), 0.0),
            np.where(seen, count * stats.std.reshape(-1) ** 2, 0.0),
        )

    def plus(self, other: Moments) -> Moments:
        """Return the moments of both groups together."""
        if not self.count.any():
            return other
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            distance = other.mean - self.mean
            return Moments(
                count,
                np.minimum(self.min, other.min),
                np.maximum(self.max, other.max),
                self.mean + distance * share,
                self.spread + other.spread + distance**2 * self.count * share,
            )

    def as_stats(
        self,
        shape: tuple[int, ...],
        *,
        quantiles: Mapping[str, NDArray[np.float64]],
        nan_count: NDArray[np.int64],
    ) -> FeatureStats:
        """Return the summary, in the feature's shape, with NaN where there were no values."""

        def shaped(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.where(self.count > 0, values, np.nan).reshape(shape)

        return FeatureStats(
            min=shaped(self.min),
            max=shaped(self.max),
            mean=shaped(self.mean),
            std=shaped(self.std),
            count=self.count.reshape(shape),
            quantiles={name: shaped(values) for name, values in quantiles.items()},
            nan_count=nan_count.reshape(shape),
        )


def merge_stats(parts: Sequence[FeatureStats]) -> FeatureStats:
    """Return the statistics of all parts together, from their summaries.

    Counts, extremes, mean and deviation are exact. Quantiles are not: they are averages of the
    parts' quantiles, weighted by count, as in LeRobot, and lie too close together where the parts
    differ. Merge accumulators for exact ones. Only quantiles that all parts have are kept.

    Raises:
        ValueError: There are no parts, or their shapes differ.
    """
    if not parts:
        raise ValueError("There are no statistics to merge: give at least one part.")
    shape = parts[0].shape
    for part in parts:
        if part.shape != shape:
            raise ValueError(f"Cannot merge statistics of shapes {shape} and {part.shape}.")
    total = Moments.nothing(math.prod(shape))
    for part in parts:
        total = total.plus(Moments.from_stats(part))
    names = [name for name in parts[0].quantiles if all(name in part.quantiles for part in parts)]
    return total.as_stats(
        shape,
        quantiles={name: _weighted_quantile(name, parts, total.count) for name in names},
        nan_count=np.sum([part.nan_count for part in parts], axis=0).reshape(-1),
    )


def _weighted_quantile(
    name: str, parts: Sequence[FeatureStats], total: NDArray[np.int64]
) -> NDArray[np.float64]:
    weighted = np.zeros(total.shape)
    for part in parts:
        count = part.count.reshape(-1)
        weighted += np.where(count > 0, part.quantiles[name].reshape(-1), 0.0) * count
    return weighted / np.maximum(total, 1)
