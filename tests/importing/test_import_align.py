"""Alignment: which value of each stream belongs to each row."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.errors import SourceError
from roboreel.importing.align import Policy, align, clean, pick, row_times, runs, sections
from roboreel.importing.mapping_file import format_ns, parse_ns
from roboreel.importing.timing import (
    spans_by_gap,
    spans_by_marks,
    spans_by_times,
    spans_while,
)

TIMES = st.lists(st.integers(0, 200), max_size=30)
ROWS = st.lists(st.integers(-20, 220), min_size=1, max_size=20).map(sorted)
METHODS = st.sampled_from(["nearest", "previous", "linear"])
MS = 1_000_000


def array(values) -> np.ndarray:
    return np.array(values, np.int64)


def slow_pick(row, times, method, max_gap):
    """Return positions and weight by looking at every value; None if there is none."""
    kept = {time: position for position, time in enumerate(times)}  # The last of a time counts.
    before = max((t for t in kept if t <= row), default=None)
    after = min((t for t in kept if t > row), default=None)
    if method == "previous":
        chosen = (before, before, 0.0)
    elif before is None or after is None:
        one = after if before is None else before
        chosen = (one, one, 0.0)
    elif method == "linear" and before != row:
        chosen = (before, after, (row - before) / (after - before))
    else:
        one = after if after - row < row - before else before
        chosen = (one, one, 0.0)
    first, second, weight = chosen
    if first is None:
        return None
    gap = max(abs(row - first), abs(row - second))
    if max_gap is not None and gap > max_gap:
        return None
    return kept[first], kept[second], weight


@given(TIMES, ROWS, METHODS, st.none() | st.integers(0, 50))
def test_every_row_takes_what_a_slow_search_finds(times, rows, method, max_gap):
    picked = pick(array(rows), clean(array(times)), Policy(method, max_gap))
    for place, row in enumerate(rows):
        expected = slow_pick(row, times, method, max_gap)
        assert bool(picked.valid[place]) == (expected is not None)
        if expected is not None:
            found = (int(picked.first[place]), int(picked.second[place]), picked.weight[place])
            assert found[:2] == expected[:2]
            assert found[2] == pytest.approx(expected[2])


@given(TIMES)
def test_cleaning_leaves_every_time_once_in_order_and_counts_the_rest(times):
    cleaned = clean(array(times))
    assert cleaned.times.tolist() == sorted(set(times))
    assert [times[i] for i in cleaned.position] == cleaned.times.tolist()
    assert cleaned.doubles == len(times) - len(set(times))
    late = sum(time < max(times[: place + 1]) for place, time in enumerate(times))
    assert cleaned.disordered == late


@given(st.integers(0, 10**15), st.integers(0, 10**12), st.sampled_from([1, 10, 29.97, 30, 1000]))
def test_rows_do_not_drift_from_their_rate(start, length, fps):
    length = min(length, 5_000 * 10**9 // max(1, int(fps)))
    times = row_times(start, start + length, fps)
    rate = Fraction(fps).limit_denominator(10_000)
    exact = [start + Fraction(k * 10**9) / rate for k in (0, len(times) // 2, len(times) - 1)]
    for place, moment in zip((0, len(times) // 2, len(times) - 1), exact, strict=True):
        assert abs(int(times[place]) - moment) <= Fraction(1, 2)
    assert times[-1] <= start + length < times[-1] + 10**9 / rate + 1


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 3000), min_size=1), min_size=1),
    METHODS,
    st.none() | st.integers(0, 400),
)
def test_pieces_have_a_value_of_every_stream_near_enough(streams, method, max_gap):
    gap = None if max_gap is None else max_gap * MS
    cleaned = {name: clean(array(times) * MS) for name, times in streams.items()}
    aligned = align(cleaned, dict.fromkeys(streams, Policy(method, gap)), 20)
    total = 0
    for piece in aligned.pieces:
        assert (np.diff(piece.times) == 50 * MS).all()
        total += len(piece)
        for name, picked in piece.picked.items():
            assert picked.valid.all()
            used = array(streams[name])[picked.first] * MS
            assert gap is None or (np.abs(used - piece.times) <= gap).all()
    starts = [min(times) * MS - _ahead(times, method) for times in streams.values()]
    assert all(piece.times[0] >= max(starts) for piece in aligned.pieces)
    assert total + aligned.dropped_rows >= total >= 0


def _ahead(times, method):
    """How long before its first value a stream counts: half a step, if it is much slower than rows."""
    step = np.median(np.diff(sorted(set(times)))) * MS if len(set(times)) > 1 else 0
    return step // 2 if step > 10.5 * 50 * MS and method != "previous" else 0


def test_a_hole_cuts_an_episode_and_the_rows_in_it_are_counted():
    steady = clean(np.arange(0, 1000, 10, dtype=np.int64) * MS)
    broken = clean(array([*range(0, 300, 10), *range(700, 1000, 10)]) * MS)
    policies = dict.fromkeys(("a", "b"), Policy("nearest", 20 * MS))
    aligned = align({"a": steady, "b": broken}, policies, 100)
    assert [len(piece) for piece in aligned.pieces] == [32, 32]
    assert aligned.dropped_rows == 36
    assert aligned.missing == {"a": 0, "b": 36}


def test_rows_begin_when_the_last_stream_has_begun():
    cleaned = {"a": clean(np.arange(100) * 10 * MS), "b": clean(np.arange(50, 100) * 10 * MS)}
    aligned = align(cleaned, dict.fromkeys("ab", Policy("nearest", 20 * MS)), 100)
    (piece,) = aligned.pieces
    assert piece.times[0] == 500 * MS
    assert aligned.late_ns == {"a": 0, "b": 500 * MS}


def test_a_slow_stream_is_held_and_a_fast_one_thinned():
    cleaned = {"slow": clean(np.arange(11) * 100 * MS), "fast": clean(np.arange(101) * 10 * MS)}
    aligned = align(cleaned, dict.fromkeys(cleaned, Policy("previous", 100 * MS)), 20)
    usage = aligned.pieces[0].usage()
    assert (usage["slow"].held, usage["slow"].unused) == (10, 0)
    assert (usage["fast"].held, usage["fast"].unused) == (0, 80)
    assert usage["slow"].largest_gap_ns == 50 * MS


def test_a_value_of_any_age_does_not_end_the_episode():
    cleaned = {"task": clean(array([0])), "camera": clean(np.arange(10) * 100 * MS)}
    policies = {"task": Policy("previous", None), "camera": Policy("nearest", 50 * MS)}
    (piece,) = align(cleaned, policies, 10).pieces
    assert len(piece) == 10
    assert piece.usage()["task"].held == 9


def test_rows_may_follow_the_values_of_a_stream():
    uneven = array([0, 31, 66, 99, 140]) * MS
    (piece,) = align({"a": clean(uneven)}, {"a": Policy("nearest", 0)}, 30, follow="a").pieces
    assert piece.times.tolist() == uneven.tolist()
    assert piece.picked["a"].first.tolist() == [0, 1, 2, 3, 4]


def test_a_clock_that_is_set_back_starts_a_new_section():
    times = array([100, 101, 102, 50, 51, 50, 52]) * 10**9
    times[5] += 500 * MS  # a little out of order only
    assert sections(times) == [(0, 3), (3, 7)]
    assert sections(array([])) == [(0, 0)]


@given(st.lists(st.booleans(), max_size=20))
def test_runs_are_the_stretches_that_are_true(mask):
    found = runs(np.array(mask, np.bool_))
    covered = [i for a, b in found for i in range(a, b)]
    assert covered == [i for i, value in enumerate(mask) if value]
    assert all(a == 0 or not mask[a - 1] for a, _ in found)


class TestBoundaries:
    def test_a_pause_separates_episodes(self):
        assert spans_by_gap(array([5, 0, 100, 104]), 20) == [(0, 6), (100, 105)]
        assert spans_by_gap(array([]), 20) == []

    def test_marks_start_and_stop_episodes(self):
        assert spans_by_marks(array([10, 50]), None, 90) == [(10, 50), (50, 90)]
        assert spans_by_marks(array([10, 50]), array([5, 20, 60]), 90) == [(10, 20), (50, 60)]

    def test_a_signal_is_an_episode_while_it_is_on(self):
        times, values = array([0, 10, 20, 30, 40]), np.array([0, 1, 1, 0, 1], np.bool_)
        assert spans_while(times, values, 50) == [(10, 30), (40, 50)]

    def test_times_count_from_the_start(self):
        assert spans_by_times([(0.5, 1.0)], 10) == [(500_000_010, 1_000_000_010)]


@given(st.integers(1, 10**12))
def test_a_length_of_time_survives_being_written(length):
    assert parse_ns(format_ns(length), "gap") == length


@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=30),
    st.lists(st.integers(0, 40), min_size=2, max_size=30),
    st.integers(1, 90),
)
def test_rows_that_no_value_is_near_need_not_be_made(first, second, gap):
    cleaned = {"a": clean(array(first) * 100 * MS), "b": clean(array(second) * 100 * MS)}
    policies = {"a": Policy("nearest", gap * MS), "b": Policy("linear", 2 * gap * MS)}
    plain = align(cleaned, policies, 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roboreel.importing.align._MOST_ROWS", 0)
        sparse = align(cleaned, policies, 30)
    assert [p.times.tolist() for p in sparse.pieces] == [p.times.tolist() for p in plain.pieces]
    assert sparse.dropped_rows == plain.dropped_rows
    for one, other in zip(sparse.pieces, plain.pieces, strict=True):
        assert all((one.picked[n].first == other.picked[n].first).all() for n in "ab")


def test_a_clock_that_jumps_by_decades_costs_no_memory():
    moments = np.concatenate([np.arange(100) * 10, 1_700_000_000_000 + np.arange(200) * 10]) * MS
    aligned = align({"a": clean(moments)}, {"a": Policy("nearest", 20 * MS)}, 100)
    assert [len(piece) for piece in aligned.pieces] == [102, 202]
    with pytest.raises(SourceError, match="did the clock jump"):
        align({"a": clean(moments)}, {"a": Policy("nearest")}, 100)
