"""Rates from times. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.importing.time_units import find_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.importing.recording import Clock, Recording


_MOST_OVER_MEAN = 1.25
"""By how much the rate of the usual distance may exceed the mean: a stream that lacks a fifth of its
values still has the rate of the others."""


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
    steps = _steps(times)
    return 1e9 / float(np.median(steps)) if len(steps) else None


def bounded_rate(times: NDArray[np.int64]) -> float | None:
    """Return values per second, by the usual distance of times; of bursts by the mean, which is less."""
    return 1e9 / float(_steps(times).mean()) if is_bursty(times) else median_rate(times)


def is_bursty(times: NDArray[Any]) -> bool:
    """Return whether values come in bursts, by their times in nanoseconds.

    The usual distance then gives a far higher rate than the mean.

    Examples:
        >>> bursts = np.arange(100)[:, None] * 200_000_000 + np.arange(10) * 139_000
        >>> is_bursty(bursts.ravel()), is_bursty(np.arange(100) * 20_000_000)
        (True, False)
    """
    steps = _steps(times)
    if not len(steps):
        return False
    usual = float(np.median(steps))
    # A pause between two episodes must not count for more than it takes to see it.
    return float(steps.clip(max=2 * usual_gap(1e9 / usual)).mean()) > _MOST_OVER_MEAN * usual


def _steps(times: NDArray[Any]) -> NDArray[np.float64]:
    steps = np.diff(np.sort(times)).astype(np.float64)
    return steps[steps > 0]


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
    if unit is None or is_bursty(times.astype(np.float64) * (1e9 / unit.ticks)):
        return None
    return tidy_rate(unit.ticks / usual)


# Which of its clocks times a stream: those of the headers, or of the log.

_LEAST_GAP_NS = 100_000_000
_CLOCKS_AGREE_NS = 1_000_000_000


def chosen_clock(
    recording: Recording, episode: int, stream: str, clock: str | None = None
) -> Clock:
    """Return the clock that importing goes by.

    Args:
        recording: A recording with times.
        episode: Its position.
        stream: Its name.
        clock: ``log`` or ``header`` if one was asked for; otherwise headers where they ascend and
            agree with the log.
    """
    if clock == "log" or "header" not in recording.streams[stream].clocks:
        return "log"
    is_video = recording.streams[stream].kind == "packets"
    if clock == "header" and not is_video:
        return "header"
    stamped = recording.times(episode, stream, "header")
    return "header" if _plausible(stamped, recording.times(episode, stream)) else "log"


def chosen_times(
    recording: Recording, episode: int, stream: str, clock: str | None = None
) -> NDArray[np.int64]:
    """Return the times of a stream by `chosen_clock`, ``(count,)``, in nanoseconds."""
    chosen = chosen_clock(recording, episode, stream, clock)
    return recording.times(episode, stream, chosen)


def usual_gap(rate: float | None) -> int:
    """Return how far away a value may be if nobody says: in nanoseconds, for values per second."""
    return max(_LEAST_GAP_NS, 0 if rate is None else round(3e9 / rate))


def _plausible(stamped: NDArray[np.int64], logged: NDArray[np.int64]) -> bool:
    if not len(stamped):
        return True
    ascends = bool((np.diff(stamped) >= 0).all())
    return (
        ascends and abs(float(np.median((stamped - logged).astype(np.float64)))) < _CLOCKS_AGREE_NS
    )
