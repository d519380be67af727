"""Counts, extremes, mean and spread of many episodes at once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from roboreel.stats.moments import Moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["SegmentMoments", "join_moments", "segment_moments"]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentMoments:
    """The moments of segments of rows, each ``(S, D)``; of finite values only."""

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

    def total(self) -> Moments:
        """Return the moments of all segments together."""
        count = self.count.sum(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = (self.mean * self.count).sum(axis=0) / np.maximum(count, 1)
            between = (self.count * (self.mean - mean) ** 2).sum(axis=0)
            spread = self.spread.sum(axis=0) + between
        return Moments(count, self.min.min(axis=0), self.max.max(axis=0), mean, spread)


def join_moments(parts: Sequence[SegmentMoments]) -> SegmentMoments:
    """Return the segments of several parts, one after the other."""
    columns = (
        np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(SegmentMoments)
    )
    return SegmentMoments(*columns)


def segment_moments(
    values: NDArray[np.float64], starts: NDArray[np.int64], finite: NDArray[np.bool_] | None
) -> SegmentMoments:
    """Return the moments of segments of rows.

    Args:
        values: ``(N, D)``, at least one row.
        starts: First row of each segment, ascending from 0; a segment ends where the next starts.
        finite: Which values count, ``(N, D)``; None for all.
    """
    lengths = np.diff(starts, append=len(values))
    if finite is None:
        count = np.broadcast_to(lengths[:, None], (len(starts), values.shape[1])).astype(np.int64)
        low = high = known = values
    else:
        count = np.add.reduceat(finite, starts, axis=0, dtype=np.int64)
        known = np.where(finite, values, 0.0)
        low, high = np.where(finite, values, np.inf), np.where(finite, values, -np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.add.reduceat(known, starts, axis=0) / np.maximum(count, 1)
        distance = known - np.repeat(mean, lengths, axis=0)
        if finite is not None:
            distance[~finite] = 0.0
        distance *= distance
        spread = np.add.reduceat(distance, starts, axis=0)
    return SegmentMoments(
        count,
        np.minimum.reduceat(low, starts, axis=0),
        np.maximum.reduceat(high, starts, axis=0),
        mean,
        spread,
    )
