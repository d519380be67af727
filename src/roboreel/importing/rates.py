"""Rates from times. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["median_rate", "rate_of_times", "tidy_rate"]

_UNITS = (1.0, 1e3, 1e6, 1e9)
"""Ticks of a second in which whole numbers count time."""


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


def rate_of_times(times: NDArray[Any]) -> float | None:
    """Return the rate of times in a unit that is not known; None if they do not tell.

    Floating point counts seconds. Whole numbers count seconds, milli-, micro- or nanoseconds,
    whichever gives a rate between 1 and 1000.

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
    units = _UNITS[:1] if times.dtype.kind == "f" else _UNITS
    rates = [unit / usual for unit in units if 1 <= unit / usual <= 1000]
    return tidy_rate(rates[0]) if rates else None
