"""Which of its clocks times a stream: those of the headers, or of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.importing.recording import Clock, Recording

__all__ = ["chosen_clock", "chosen_times", "usual_gap"]

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
