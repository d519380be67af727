"""Which value of each stream belongs to each row. Pure: times in, positions out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from roboreel.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

Method = Literal["nearest", "previous", "linear"]
"""How a row finds its value: the nearest in time, the last one before it, or a mean of both sides."""

SECOND = 1_000_000_000
_MOST_ROWS = 20_000_000
"""So many rows of an even grid are made whether values are near or not: a week at 30 Hz."""
MUCH_SLOWER = 10.5
"""A stream that is so many times slower than others is held; ten times, with some room for jitter."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How the rows find the values of a stream."""

    method: Method = "nearest"
    max_gap_ns: int | None = None
    """How far a value may lie from its row; None for any distance."""


@dataclass(frozen=True, slots=True, eq=False)
class Cleaned:
    """The times of a stream in ascending order, each once."""

    times: NDArray[np.int64]
    """``(M,)``, strictly ascending."""
    position: NDArray[np.int64]
    """Where each of them is in the stream, ``(M,)``."""
    disordered: int = 0
    """How many values came after a later one."""
    doubles: int = 0
    """How many values were left out since a later value has the same time."""


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """What each row takes of a stream: ``(1 - weight) * first + weight * second``."""

    first: NDArray[np.int64]
    """A position in the stream, ``(R,)``; 0 where nothing is valid."""
    second: NDArray[np.int64]
    """The same, unless two values are mixed, ``(R,)``."""
    weight: NDArray[np.float64]
    """``(R,)``, from 0 to 1."""
    gap_ns: NDArray[np.int64]
    """How far the farther of them is from the row, ``(R,)``."""
    valid: NDArray[np.bool_]
    """Whether there is a value at all, near enough, ``(R,)``."""

    def rows(self, rows: slice | NDArray[np.int64]) -> Picked:
        """Return what some of the rows take."""
        return Picked(*(getattr(self, column.name)[rows] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class Usage:
    """What became of a stream's values in some rows."""

    held: int
    """Rows that repeat the value of the row before."""
    interpolated: int
    """Rows between two values."""
    unused: int
    """Values between the first and the last row that no row takes."""
    largest_gap_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Rows without a hole: what becomes one episode."""

    times: NDArray[np.int64]
    """Of the rows, ``(R,)``, ascending."""
    picked: Mapping[str, Picked]
    """By stream."""

    def __len__(self) -> int:
        return len(self.times)

    def usage(self) -> dict[str, Usage]:
        """Return what became of the values, by stream."""
        return {name: _usage(picked) for name, picked in self.picked.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """The rows of an episode, in pieces where values are missing in between."""

    pieces: tuple[Piece, ...]
    dropped_rows: int
    """Rows for which a stream has no value near enough, and pieces that are too short."""
    missing: Mapping[str, int]
    """By stream, how many rows it has no value for."""
    late_ns: Mapping[str, int]
    """By stream, how long after the first stream it starts."""


def align(
    cleaned: Mapping[str, Cleaned],
    policies: Mapping[str, Policy],
    fps: float | Fraction,
    *,
    span: tuple[int, int] | None = None,
    follow: str | None = None,
    least_rows: int = 1,
) -> Alignment:
    """Return which values the rows of an episode take.

    Rows begin when every stream has begun, and end when a stream with a limited gap has ended. A
    stream with less than a value for `MUCH_SLOWER` rows begins half of its step earlier, and ends one
    step later: a value each second must not cost a second of the others.

    Args:
        cleaned: The times of each stream.
        policies: By stream.
        fps: Rows per second.
        span: ``[start, stop)`` in nanoseconds that the rows must lie in; None for no limit.
        follow: A stream whose times are those of the rows, instead of an even grid.
        least_rows: Shorter pieces are dropped.
    """
    start, stop = _common_span(cleaned, policies, fps, span)
    if follow is not None:
        times = cleaned[follow].times
        times = times[(times >= start) & (times <= stop)]
        left_out = 0
    else:
        times, left_out = _rows_near(cleaned, policies, (start, stop), fps)
    if span is not None:
        times = times[times < span[1]]
    picked = {name: pick(times, cleaned[name], policies[name]) for name in cleaned}
    valid = np.ones(len(times), np.bool_)
    for one in picked.values():
        valid &= one.valid
    longest = SECOND / fps + 1 if left_out else None
    spans = [(a, b) for a, b in _unbroken(times, runs(valid), longest) if b - a >= least_rows]
    pieces = tuple(
        Piece(times[a:b], {name: of.rows(slice(a, b)) for name, of in picked.items()})
        for a, b in spans
    )
    firsts = {name: int(one.times[0]) for name, one in cleaned.items() if len(one.times)}
    return Alignment(
        pieces,
        dropped_rows=left_out + len(times) - sum(map(len, pieces)),
        missing={name: int((~one.valid).sum()) for name, one in picked.items()},
        late_ns={name: first - min(firsts.values()) for name, first in firsts.items()},
    )


def _rows_near(
    cleaned: Mapping[str, Cleaned],
    policies: Mapping[str, Policy],
    within: tuple[int, int],
    fps: float | Fraction,
) -> tuple[NDArray[np.int64], int]:
    """Return the times of rows, and how many are left out as no value can be near enough.

    A computer without a clock of its own jumps from 1970 to our days once it finds a network: the
    rows of these years must not be made.

    Raises:
        SourceError: There are too many rows, and values are held for any time.
    """
    start, stop = within
    rate = Fraction(fps).limit_denominator(10_000)
    count = _num_rows(start, stop, rate)
    if count <= _MOST_ROWS:
        return row_times(start, stop, fps), 0
    limits = {n: p.max_gap_ns for n, p in policies.items() if n in cleaned}
    reach, name = max(
        ((int(gap), n) for n, gap in limits.items() if gap is not None), default=(0, "")
    )
    if not name:
        raise SourceError(
            f"Rows would reach over {(stop - start) / SECOND / 3600:,.0f} hours, and a value may be "
            "held for any time: did the clock jump? Give --max-gap."
        )
    times = cleaned[name].times
    # One more step on either side, so that no row is lost where the grid is rounded.
    around = reach + 2 * int(SECOND / fps) + 2
    breaks = np.flatnonzero(np.diff(times) > 2 * around)
    lows = np.concatenate([times[:1], times[breaks + 1]]) - around
    highs = np.concatenate([times[breaks], times[-1:]]) + around
    parts = []
    for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
        first = max(0, int((low - start) * rate / SECOND))
        last = min(count, int((high - start) * rate / SECOND) + 2)
        parts.append(_moments(start, np.arange(first, max(first, last), dtype=np.int64), rate))
    near = np.unique(np.concatenate(parts))
    return near, count - len(near)


def _unbroken(
    times: NDArray[np.int64], spans: list[tuple[int, int]], longest: float | None
) -> list[tuple[int, int]]:
    """Return spans of rows, cut where rows between them were left out."""
    if longest is None:
        return spans
    found = []
    for start, stop in spans:
        cuts = (np.flatnonzero(np.diff(times[start:stop]) > longest) + 1 + start).tolist()
        found += list(pairwise([start, *cuts, stop]))
    return found


def clean(times: NDArray[np.int64]) -> Cleaned:
    """Return times in order, each once; of values with the same time, the last one counts.

    Args:
        times: In the order of the stream, ``(N,)``.

    Examples:
        >>> clean(np.array([0, 20, 10, 20])).position.tolist()
        [0, 2, 3]
    """
    order = np.argsort(times, kind="stable")
    ascending = times[order]
    last = np.append(ascending[1:] != ascending[:-1], True) if len(times) else np.empty(0, np.bool_)
    kept = order[last]
    highest = np.maximum.accumulate(times) if len(times) else times
    return Cleaned(
        times[kept],
        kept.astype(np.int64),
        disordered=int((times < highest).sum()),
        doubles=len(times) - len(kept),
    )


def pick(rows: NDArray[np.int64], cleaned: Cleaned, policy: Policy) -> Picked:
    """Return what rows take of a stream.

    Args:
        rows: Their times, ``(R,)``.
        cleaned: The times of the stream.
        policy: How values are found.
    """
    times, count = cleaned.times, len(cleaned.times)
    if not count:
        nothing = np.zeros(len(rows), np.int64)
        return Picked(nothing, nothing, nothing.astype(float), nothing, nothing.astype(np.bool_))
    before = np.searchsorted(times, rows, side="right") - 1
    previous, following = before.clip(0), (before + 1).clip(max=count - 1)
    back, ahead = rows - times[previous], times[following] - rows
    # Before the first and after the last value, one side is all there is.
    alone = (before < 0) | (before == count - 1)
    if policy.method == "previous":
        first, second, valid = previous, previous, before >= 0
        gap = np.abs(back)
    else:
        nearest = np.where((before < 0) | (~alone & (ahead < back)), following, previous)
        first, second = nearest, nearest
        valid, gap = np.ones(len(rows), np.bool_), np.abs(rows - times[nearest])
    weight = np.zeros(len(rows))
    if policy.method == "linear":
        mixed = ~alone & (back > 0)
        first, second = np.where(mixed, previous, first), np.where(mixed, following, second)
        gap = np.where(mixed, np.maximum(back, ahead), gap)
        np.divide(back, back + ahead, out=weight, where=mixed)
    if policy.max_gap_ns is not None:
        valid = valid & (gap <= policy.max_gap_ns)
    return Picked(cleaned.position[first], cleaned.position[second], weight, gap, valid)


def row_times(start: int, stop: int, fps: float | Fraction) -> NDArray[np.int64]:
    """Return the times of rows from ``start`` to at most ``stop``, in nanoseconds.

    Each is rounded by itself, so that rows do not drift.

    Examples:
        >>> row_times(0, 100_000_000, 30).tolist()
        [0, 33333333, 66666667, 100000000]
    """
    rate = Fraction(fps).limit_denominator(10_000)
    return _moments(start, np.arange(_num_rows(start, stop, rate), dtype=np.int64), rate)


def _num_rows(start: int, stop: int, rate: Fraction) -> int:
    """Return how many rows of an even grid there are up to and including a moment."""
    if stop < start:
        return 0
    count = int((stop - start) * rate / SECOND + Fraction(1, 2)) + 1
    last = _moments(start, np.array([count - 1], np.int64), rate)[0]
    return count if last <= stop else count - 1  # A time is rounded, up or down.


def _moments(start: int, numbers: NDArray[np.int64], rate: Fraction) -> NDArray[np.int64]:
    whole, rest = divmod(SECOND * rate.denominator, rate.numerator)
    return start + numbers * whole + (numbers * rest + rate.numerator // 2) // rate.numerator


def runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the spans in which a mask is true.

    Examples:
        >>> runs(np.array([True, True, False, True]))
        [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def sections(times: NDArray[np.int64], jump_ns: int = SECOND) -> list[tuple[int, int]]:
    """Return spans of a stream in which its clock does not jump back by more than ``jump_ns``.

    Smaller steps back are values in disorder.
    """
    if not len(times):
        return [(0, 0)]
    cuts = [0, *(np.flatnonzero(np.diff(times) < -jump_ns) + 1).tolist(), len(times)]
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


def _common_span(
    cleaned: Mapping[str, Cleaned],
    policies: Mapping[str, Policy],
    fps: float | Fraction,
    span: tuple[int, int] | None,
) -> tuple[int, int]:
    """Return the first and the last moment of which every stream may have a value."""
    if any(not len(one.times) for one in cleaned.values()) or not cleaned:
        return 0, -1
    reach = {name: _reach(one.times, policies[name], fps) for name, one in cleaned.items()}
    firsts = {name: int(one.times[0]) for name, one in cleaned.items()}
    ends = {name: int(one.times[-1]) for name, one in cleaned.items()}
    # Elsewhere too, the nearest value lies at most half a step ahead; the previous one never.
    tenth = SECOND / fps / 10
    early = {
        name: 0 if policies[name].method == "previous" or of <= tenth else of // 2
        for name, of in reach.items()
    }
    start = max([min(firsts.values()), *(firsts[name] - early[name] for name in firsts)])
    limited = [ends[n] + reach[n] for n in ends if policies[n].max_gap_ns is not None]
    stop = min([*limited, max(ends.values()) + int(tenth)])
    return (start, stop) if span is None else (max(start, span[0]), min(stop, span[1]))


def _reach(times: NDArray[np.int64], policy: Policy, fps: float | Fraction) -> int:
    """Return how far behind its end a stream counts: a step, if it is much slower than rows.

    Otherwise a tenth of a row: times in whole milliseconds must not cost the last image.
    """
    step = int(np.median(np.diff(times))) if len(times) > 1 else 0
    reach = step if step * fps > MUCH_SLOWER * SECOND else int(SECOND / fps / 10)
    return reach if policy.max_gap_ns is None else min(reach, policy.max_gap_ns)


def _usage(picked: Picked) -> Usage:
    if not len(picked.first):
        return Usage(0, 0, 0, 0)
    mixed = picked.weight > 0
    same = (np.diff(picked.first) == 0) & (np.diff(picked.second) == 0)
    held = int((same & ~mixed[1:]).sum())
    used = np.unique(np.concatenate([picked.first, picked.second]))
    unused = int(used[-1] - used[0]) + 1 - len(used)
    return Usage(held, int(mixed.sum()), unused, int(picked.gap_ns.max()))
