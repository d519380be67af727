"""Positions in a ring, and its header."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboreel.replay.header import COPY_BYTES, HEADER_BYTES, Header, HeaderReader, copy_offset
from roboreel.replay.positions import block_sums, draw_weighted, slot_spans

BOOT = b"this run of 1234"
COUNTERS = st.integers(0, 2**62)
HEADERS = st.builds(Header, *[COUNTERS] * 9, st.binary(min_size=16, max_size=16))


class Chance(np.random.Generator):
    """A generator whose uniform numbers are given."""

    def __init__(self, numbers: list[float]) -> None:
        super().__init__(np.random.PCG64(0))
        self.numbers = numbers

    def random(self, *args, **kwargs):
        return np.array(self.numbers)


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(0, 10**12), st.integers(0, 50))
def test_spans_hold_the_slots_of_all_rows_in_order(capacity, start, count):
    count = min(count, capacity)
    spans = slot_spans(start, start + count, capacity)
    slots = [slot for span in spans for slot in range(*span)]
    assert slots == [row % capacity for row in range(start, start + count)]
    assert len(spans) <= 2


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0, 0, 1, 2, 7]), min_size=1, max_size=2000).filter(any),
    st.lists(st.floats(0, 1, exclude_max=True), max_size=20),
)
def test_a_weighted_draw_equals_a_walk_along_the_running_sum(weights, numbers):
    # Small integers, so that no order of addition rounds.
    held = np.array(weights, dtype=np.float32)
    drawn = draw_weighted(held, block_sums(held), len(numbers), Chance(numbers))
    running = np.cumsum(held, dtype=np.float64)
    targets = np.array(numbers, dtype=np.float64) * running[-1]
    assert drawn.tolist() == np.searchsorted(running, targets, side="right").tolist()


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 2.0**100, width=32), min_size=1, max_size=600).filter(any),
    st.lists(st.floats(0, 1), max_size=20),
)
def test_a_weight_of_zero_is_never_drawn(weights, numbers):
    held = np.array(weights, dtype=np.float32)
    drawn = draw_weighted(held, block_sums(held), len(numbers), Chance(numbers))
    assert (held[drawn] > 0).all()


@settings(deadline=None)
@given(HEADERS)
def test_a_header_comes_back(header):
    assert Header.unpack(header.pack()) == header
    assert Header.unpack(header.pack() + b"more") == header


@settings(deadline=None)
@given(HEADERS, st.data())
def test_a_damaged_header_is_no_header(header, data):
    packed = bytearray(header.pack())
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    assert Header.unpack(bytes(packed)) is None
    assert Header.unpack(header.pack()[:at]) is None


@settings(deadline=None)
@given(HEADERS, HEADERS, st.sampled_from(["none", "older", "newer", "both"]))
def test_the_newest_copy_that_is_whole_counts(one, other, damaged):
    older, newer = sorted((one, other), key=lambda header: header.sequence)
    if (older.sequence - newer.sequence) % 2 == 0:
        return
    mapped = bytearray(HEADER_BYTES)
    for header, name in ((older, "older"), (newer, "newer")):
        packed = header.pack() if damaged not in (name, "both") else header.pack()[:40]
        at = copy_offset(header.sequence)
        mapped[at : at + len(packed)] = packed
    expected = {"none": newer, "older": newer, "newer": older, "both": None}[damaged]
    assert HeaderReader(mapped).newest(BOOT) == expected  # type: ignore[arg-type]  # sliced like a map


def copies_of(*headers: Header | None) -> HeaderReader:
    packed = [b"" if header is None else header.pack() for header in headers]
    mapped = b"".join(data.ljust(COPY_BYTES, b"\0") for data in packed)
    return HeaderReader(mapped)  # type: ignore[arg-type]  # sliced like a map


def test_after_a_power_cut_that_took_the_copies_in_use_the_newer_synced_one_counts():
    empty = Header.empty(10, b"earlier run 1234")
    older, newer = (replace(empty, sequence=number) for number in (4, 9))
    assert copies_of(None, None, older, newer).newest(BOOT) == newer
    assert copies_of(None, older, newer, None).newest(BOOT) == newer
    assert copies_of(None, newer, None, older).newest(BOOT) == newer


def test_in_this_run_of_the_machine_a_synced_copy_never_stands_in_for_a_newer_one():
    synced = Header.empty(10, BOOT)
    assert copies_of(None, None, synced, synced).newest(BOOT) is None
    live = replace(synced, sequence=1)
    assert copies_of(None, live, replace(synced, sequence=7), synced).newest(BOOT) == live


def test_the_synced_copies_take_turns():
    older, newer = (replace(Header.empty(10, BOOT), sequence=number) for number in (4, 9))
    assert copies_of(None, None, older, newer).older_synced_copy() == 2
    assert copies_of(None, None, newer, older).older_synced_copy() == 3
    assert copies_of(None, None, None, older).older_synced_copy() == 2
    assert copies_of(None, None, older, None).older_synced_copy() == 3


def test_the_header_of_an_empty_ring_reserves_the_first_turn():
    header = Header.empty(1000, b"x" * 16)
    assert (header.reserved, header.head, header.sequence) == (1000, 0, 0)


@pytest.mark.parametrize("data", [b"", b"RREPLAY1", bytes(4096), b"\xff" * 4096])
def test_bytes_that_are_no_header_are_refused(data):
    assert Header.unpack(data) is None
