"""The episodes of a recording with timestamps: clocks are chosen, spans cut, rows aligned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.align import (
    MUCH_SLOWER,
    Cleaned,
    Policy,
    align,
    clean,
    runs,
    sections,
)
from roboreel.importing.mapping_file import format_ns
from roboreel.importing.rates import (
    bounded_rate,
    chosen_clock,
    chosen_times,
    is_bursty,
    tidy_rate,
    usual_gap,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.importing.align import Alignment, Piece
    from roboreel.importing.mapping import ImportMap
    from roboreel.importing.recording import Recording

    Span = tuple[int, int]
    """``[start, stop)`` in nanoseconds."""

_LATE_NS = 1_000_000_000


def derived_rate(recording: Recording, mapping: ImportMap) -> tuple[float, str] | None:
    """Return the rate of a recording, and where it comes from; None if no stream has one.

    It is that of the slowest camera. Without cameras it is that of the slowest stream of the state
    and the action, and without these of the slowest of all. A stream that is more than ten times
    slower than the fastest of them does not count: its values are held.

    Raises:
        SourceError: The rate is not near a whole number, or values come in bursts.
    """
    leading = [mapping.follow] if mapping.follow else _leading(recording, mapping)
    times = {
        name: chosen_times(recording, 0, name, mapping.clock)
        for name in leading
        if name in recording.streams
    }
    rates = {name: rate for name, of in times.items() if (rate := bounded_rate(of)) is not None}
    if not rates:
        return None
    least = max(rates.values()) / MUCH_SLOWER
    slowest = min((n for n in rates if rates[n] >= least), key=lambda name: rates[name])
    if is_bursty(times[slowest]):
        raise SourceError(
            f"{slowest!r} has {rates[slowest]:.4g} values a second on average, and they come in bursts: "
            f"give the rate of the frames, --fps (fps=…): {str(recording.path)!r}."
        )
    rate = tidy_rate(rates[slowest])
    if rate is None:
        raise SourceError(
            f"{slowest!r} has {rates[slowest]:.4g} values a second, which is not near a whole number: "
            f"give --fps (fps=…): {str(recording.path)!r}."
        )
    slower = [
        f"{name} has {of:.3g} a second and is held" for name, of in rates.items() if of < least
    ]
    return rate, "; ".join([f"the rate of {slowest}", *slower])


def _leading(recording: Recording, mapping: ImportMap) -> list[str]:
    """Return the streams of which one sets the rate."""
    by_feature = {name: one.streams for name, one in mapping.features.items()}
    names = list(dict.fromkeys(n for streams in by_feature.values() for n in streams))
    cameras = [name for name in names if recording.streams[name].is_camera]
    main = [n for name in ("observation.state", "action") for n in by_feature.get(name, ())]
    return cameras or list(dict.fromkeys(main)) or names


def stream_policies(recording: Recording, mapping: ImportMap) -> dict[str, Policy]:
    """Return how rows find the values of each mapped stream.

    Raises:
        SourceError: Two features want one stream in different ways, or a mean of what has none.
    """
    policies: dict[str, Policy] = {}
    for name, feature in mapping.features.items():
        for stream in feature.streams:
            kind, dtype = recording.streams[stream].kind, recording.streams[stream].dtype
            mixes = kind == "numbers" and dtype.startswith("float")
            if feature.align == "linear" and not mixes:
                raise SourceError(f"{name!r} has no values between two others: align = 'nearest'.")
            method = feature.align or (
                "nearest" if mapping.align == "linear" and not mixes else mapping.align
            )
            chosen = mapping.max_gap_ns if feature.max_gap_ns is None else feature.max_gap_ns
            if chosen is None:
                rate = bounded_rate(chosen_times(recording, 0, stream, mapping.clock))
                chosen = usual_gap(rate)
            policy = Policy(method, None if chosen < 0 else chosen)
            if policies.setdefault(stream, policy) != policy:
                raise SourceError(
                    f"Two features come from {stream!r} with different align or max_gap: give both "
                    "the same."
                )
    if mapping.task.stream is not None:
        policies.setdefault(mapping.task.stream, Policy("previous", None))
    return policies


def timed_pieces(
    recording: Recording, mapping: ImportMap, episode: int, fps: float
) -> tuple[dict[str, Piece | None], list[str]]:
    """Return the pieces of one source episode by name, each an episode, and notes on the rest.

    Raises:
        SourceError: The clocks cannot be brought together.
    """
    policies = stream_policies(recording, mapping)
    name = recording.episodes[episode].name
    times, notes = _all_times(recording, mapping, episode, list(policies), fps)
    pieces: list[Piece] = []
    spans = _spans(recording, mapping, episode, times)
    for parts in _sections(
        times, recording, {n for n, p in policies.items() if p.max_gap_ns is None}
    ):
        cleaned = {}
        for stream, (start, stop) in parts.items():
            part = clean(times[stream][start:stop])
            cleaned[stream] = replace(part, position=part.position + start)
        _hold_last(times, cleaned)
        notes += _clean_notes(name, cleaned)
        for span in spans:
            aligned = align(cleaned, policies, fps, span=span, follow=mapping.follow)
            notes += _dropped_notes(name, aligned, policies)
            pieces += aligned.pieces
    if not pieces:
        notes.append(f"{name}: no row has a value of every stream. {_apart(times)}".rstrip())
    if len(pieces) == 1:
        return {name: pieces[0]}, notes
    return {f"{name}/{number}": piece for number, piece in enumerate(pieces)}, notes


def _apart(times: Mapping[str, NDArray[np.int64]]) -> str:
    """Return which streams have no time in common, as those of two clocks; nothing if all have."""
    empty = [stream for stream, of in times.items() if not len(of)]
    if empty or not times:
        return f"{', '.join(map(repr, empty))} has no values." if empty else ""
    first = min(times, key=lambda stream: int(times[stream].max()))
    last = max(times, key=lambda stream: int(times[stream].min()))
    apart = int(times[last].min()) - int(times[first].max())
    return f"{first!r} ends {format_ns(apart)} before {last!r} starts." if apart > 0 else ""


def _all_times(
    recording: Recording, mapping: ImportMap, episode: int, streams: list[str], fps: float
) -> tuple[dict[str, NDArray[np.int64]], list[str]]:
    """Return the times of all streams, by the clock that was chosen for each, and notes on clocks."""
    clocks = {s: chosen_clock(recording, episode, s, mapping.clock) for s in streams}
    times = {s: recording.times(episode, s, clock) for s, clock in clocks.items()}
    logged = [stream for stream, clock in clocks.items() if clock == "log"]
    doubtful = [s for s in logged if "header" in recording.streams[s].clocks]
    notes = []
    if doubtful and mapping.clock != "log":
        notes.append(
            f"Times of the log are used for {', '.join(doubtful)}: those of the headers do not ascend, "
            "or are of another clock."
        )
    for stream in [s for s, clock in clocks.items() if clock == "header" and logged]:
        ahead = recording.times(episode, stream) - times[stream]
        apart = abs(round(float(np.median(ahead)))) if len(ahead) else 0
        if apart * fps > 0.5e9:
            notes.append(
                f"{recording.episodes[episode].name}: the headers of {stream} are {format_ns(apart)} "
                f"from the log, more than half a frame, and {', '.join(logged)} goes by the log: "
                "--clock log times all by it."
            )
    return times, notes


def _sections(
    times: Mapping[str, NDArray[np.int64]], recording: Recording, held: set[str]
) -> Iterator[dict[str, tuple[int, int]]]:
    """Yield spans of all streams between jumps of the clock, which all of them must share.

    A stream that may be held for any time need not have a value after each jump: a task is often
    told once. Its span is then empty.
    """
    found = {stream: sections(of) for stream, of in times.items()}
    most = max(map(len, found.values()), default=0)
    for stream in held:
        if len(found[stream]) == 1 and len(found) > len(held):
            found[stream] += [(len(times[stream]),) * 2] * (most - 1)
    counts = {len(parts) for parts in found.values()}
    if len(counts) > 1:
        jumping = next(stream for stream, parts in found.items() if len(parts) == max(counts))
        steady = next(stream for stream, parts in found.items() if len(parts) == min(counts))
        raise SourceError(
            f"The clock of {jumping!r} jumps back {max(counts) - 1} times, and that of {steady!r} "
            f"{min(counts) - 1} times: give --clock log, or leave one of them out of the mapping: "
            f"{str(recording.path)!r}."
        )
    for number in range(max(counts, default=0)):
        yield {stream: parts[number] for stream, parts in found.items()}


def _hold_last(times: Mapping[str, NDArray[np.int64]], cleaned: dict[str, Cleaned]) -> None:
    """Let streams without a value since the clock jumped begin with their last one before."""
    filled = [int(one.times[0]) for one in cleaned.values() if len(one.times)]
    for stream, one in cleaned.items():
        if filled and not len(one.times) and len(times[stream]):
            last = len(times[stream]) - 1
            cleaned[stream] = Cleaned(np.array([min(filled)]), np.array([last]))


def _spans(
    recording: Recording,
    mapping: ImportMap,
    episode: int,
    times: Mapping[str, NDArray[np.int64]],
) -> list[Span | None]:
    """Return the spans that the mapping cuts an episode into; None is all of it."""
    rule = mapping.episodes
    filled = [of for of in times.values() if len(of)]
    if rule.by == "file" or not filled:
        return [None]
    first, end = min(int(of.min()) for of in filled), max(int(of.max()) for of in filled) + 1
    if rule.by == "times":
        return list(spans_by_times(rule.times, first))
    if rule.by == "gap":
        counted = (
            np.concatenate(filled)
            if rule.stream is None
            else _marks(recording, episode, rule.stream)
        )
        return list(spans_by_gap(counted, rule.gap_ns or 1))
    if rule.active is not None:
        stream = _named(recording, rule.active)
        marks = recording.times(episode, stream)
        values = recording.read(episode, {stream: np.arange(len(marks))})[stream]
        active = np.asarray(values).reshape(len(marks), -1).astype(np.bool_).max(axis=1)
        order = np.argsort(marks, kind="stable")
        return list(spans_while(marks[order], active[order], end))
    starts = _marks(recording, episode, rule.start or "")
    stops = None if rule.stop is None else _marks(recording, episode, rule.stop)
    return list(spans_by_marks(starts, stops, end))


def _marks(recording: Recording, episode: int, name: str) -> NDArray[np.int64]:
    return recording.times(episode, _named(recording, name))


def _named(recording: Recording, name: str) -> str:
    """Return a stream by its name, or the first of a topic."""
    found = next((n for n, s in recording.streams.items() if name in (n, s.topic)), None)
    # Calls of a service are recorded on a topic of their own.
    events = f"{name}/_service_event"
    found = found or next((n for n, s in recording.streams.items() if s.topic == events), None)
    return recording.stream(found or name).name


def _clean_notes(name: str, cleaned: Mapping[str, Cleaned]) -> list[str]:
    notes = []
    for stream, one in cleaned.items():
        if one.disordered:
            notes.append(
                f"{name}: {one.disordered} values of {stream} came late and were put in order."
            )
        if one.doubles:
            notes.append(f"{name}: {one.doubles} values of {stream} have the time of another one.")
    return notes


def _dropped_notes(name: str, aligned: Alignment, policies: Mapping[str, Policy]) -> list[str]:
    notes = []
    late = {stream: of for stream, of in aligned.late_ns.items() if of > _LATE_NS}
    for stream, of in late.items():
        notes.append(f"{name}: {stream} starts {of / 1e9:.2f} s late; rows begin with it.")
    if aligned.dropped_rows:
        lacking = [
            f"{stream} has no value within {format_ns(policies[stream].max_gap_ns or -1)} for {count}"
            for stream, count in aligned.missing.items()
            if count
        ]
        notes.append(f"{name}: {aligned.dropped_rows} rows dropped: {', '.join(lacking)}.")
    return notes


# Where episodes begin and end in a recording that runs on. Pure: times in, spans out.


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
