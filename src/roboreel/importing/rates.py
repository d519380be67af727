"""Rates from times. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.importing.time_units import find_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["median_rate", "rate_of_times", "tidy_rate"]


def tidy_rate(fps: float) -> float | None:
    """Return a rate as a whole number if it is within two percent of one; None otherwise.

    Examples:
        >>> tidy_rate(29.98), tidy_rate(12.5)
        (30.0, None)
    """
    whole = round(fps)
    return float(whole) if whole and abs(fps - whole) <= 0.02 * whole else None


def median_rate(times: NDArray[np.int64]) -> float | None:
    """Return values per second, by the usual distance of times in nanoseconds."""
    steps = np.diff(np.sort(times)).astype(np.float64)
    steps = steps[steps > 0]
    return 1e9 / float(np.median(steps)) if len(steps) else None


def rate_of_times(times: NDArray[Any], name: str = "") -> float | None:
    """Return the rate of times in a unit that is not known; None if they do not tell.

    Args:
        times: In the unit that `find_units` finds.
        name: Of their array or column, which may tell the unit.

    Examples:
        >>> rate_of_times(np.arange(10) * 20)
        50.0
        >>> rate_of_times(np.arange(10) / 30)
        30.0
    """
    steps = np.diff(times.astype(np.float64))
    usual = float(np.median(steps)) if len(steps) else 0.0
    if not np.isfinite(usual) or usual <= 0 or (steps == 1).all():
        return None  # Steps of exactly 1 count frames, not time.
    unit = find_units({name: times}).get(name)
    return None if unit is None else tidy_rate(unit.ticks / usual)
