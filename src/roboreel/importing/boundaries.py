"""Where episodes begin and end in a recording that runs on. Pure: times in, spans out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.importing.align import runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Span = tuple[int, int]
    """``[start, stop)`` in nanoseconds."""


def spans_by_gap(times: NDArray[np.int64], gap_ns: int) -> list[Span]:
    """Return the spans between pauses that are longer than ``gap_ns``.

    Args:
        times: Of the values that count, ``(N,)``, in any order.
        gap_ns: The longest pause inside an episode.

    Examples:
        >>> spans_by_gap(np.array([0, 10, 100, 110]), 50)
        [(0, 11), (100, 111)]
    """
    if not len(times):
        return []
    ascending = np.sort(times)
    cuts = np.flatnonzero(np.diff(ascending) > gap_ns)
    firsts = ascending[np.concatenate([[0], cuts + 1])]
    lasts = ascending[np.concatenate([cuts, [len(ascending) - 1]])]
    return [(int(a), int(b) + 1) for a, b in zip(firsts, lasts, strict=True)]


def spans_by_marks(
    starts: NDArray[np.int64], stops: NDArray[np.int64] | None, end: int
) -> list[Span]:
    """Return a span for each start mark: to the next stop mark, or to the next start.

    A start without a stop ends at the next start, or at the end of the recording.

    Args:
        starts: Times of the start marks.
        stops: Times of the stop marks; None if a start ends the episode before it.
        end: Right after the last value of the recording.

    Examples:
        >>> spans_by_marks(np.array([10, 50]), np.array([30]), 100)
        [(10, 30), (50, 100)]
    """
    begins = np.unique(starts)
    spans = []
    for place, begin in enumerate(begins.tolist()):
        stop = int(begins[place + 1]) if place + 1 < len(begins) else end
        if stops is not None:
            later = stops[(stops > begin) & (stops < stop)]
            stop = int(later.min()) if len(later) else stop
        if stop > begin:
            spans.append((int(begin), stop))
    return spans


def spans_while(times: NDArray[np.int64], active: NDArray[np.bool_], end: int) -> list[Span]:
    """Return the spans in which a signal is on: from a value that is true to one that is not.

    Args:
        times: Of the signal's values, ``(N,)``, ascending.
        active: Whether each of them says that an episode is under way.
        end: Right after the last value of the recording.

    Examples:
        >>> spans_while(np.array([0, 10, 20]), np.array([False, True, False]), 100)
        [(10, 20)]
    """
    moments = [*times.tolist(), end]
    spans = [(moments[start], moments[stop]) for start, stop in runs(active)]
    return [(start, stop) for start, stop in spans if start < stop]


def spans_by_times(pairs: Sequence[tuple[float, float]], start: int) -> list[Span]:
    """Return spans that were given in seconds from the start of the recording.

    Examples:
        >>> spans_by_times([(0.0, 1.5)], 100)
        [(100, 1500000100)]
    """
    return [(start + round(a * 1e9), start + round(b * 1e9)) for a, b in pairs]
