"""The timelines of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import rerun as rr

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Beyond, nanoseconds do not fit in 64 bits.
_MAX_SECONDS = 9e9


class Times:
    """When each frame of an episode is, on the timelines ``frame_index`` and ``timestamp``.

    Args:
        frame_index: Numbers of the frames, ``(T,)``.
        timestamp: Seconds, ``(T,)``. There is no such timeline if one of them is not finite.
    """

    def __init__(self, frame_index: NDArray[Any], timestamp: NDArray[Any]) -> None:
        self._numbers = frame_index
        self._durations: NDArray[np.timedelta64] | None = None
        seconds = timestamp.astype(np.float64)
        if (np.abs(seconds) < _MAX_SECONDS).all():
            self._durations = np.rint(seconds * 1e9).astype("timedelta64[ns]")

    def at(self, frames: NDArray[np.int64] | slice) -> list[rr.TimeColumn]:
        """Return the times of some frames."""
        columns = [rr.TimeColumn("frame_index", sequence=self._numbers[frames])]
        if self._durations is not None:
            columns.append(rr.TimeColumn("timestamp", duration=self._durations[frames]))
        return columns
