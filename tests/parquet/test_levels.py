"""Runs and bit-packed groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.levels import decode_hybrid
from tests.parquet.test_thrift import varint


def packed(numbers: list[int], width: int) -> bytes:
    total = sum(number << place * width for place, number in enumerate(numbers))
    return varint(len(numbers) // 8 << 1 | 1) + total.to_bytes(len(numbers) * width // 8, "little")


def run(number: int, length: int, width: int) -> bytes:
    return varint(length << 1) + number.to_bytes((width + 7) // 8, "little")


@st.composite
def hybrids(draw):
    width = draw(st.integers(1, 32))
    number = st.integers(0, 2**width - 1)
    encoded = b""
    numbers: list[int] = []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            group = draw(
                st.integers(1, 3).flatmap(
                    lambda n: st.lists(number, min_size=8 * n, max_size=8 * n)
                )
            )
            encoded, numbers = encoded + packed(group, width), numbers + group
        else:
            value, length = draw(number), draw(st.integers(1, 300))
            encoded, numbers = encoded + run(value, length, width), numbers + [value] * length
    return encoded, width, numbers


@given(hybrids(), st.floats(0, 1))
def test_runs_and_packed_groups_come_back_in_order(hybrid, part):
    encoded, width, numbers = hybrid
    count = round(part * len(numbers))
    assert decode_hybrid(encoded, width, count).tolist() == numbers[:count]


def test_no_bits_are_zeros():
    assert decode_hybrid(b"", 0, 3).tolist() == [0, 0, 0]


@given(st.binary(max_size=60), st.integers(-1, 40), st.integers(0, 500))
def test_any_bytes_give_numbers_or_a_clear_error(data, width, count):
    try:
        numbers = decode_hybrid(data, width, count)
    except CorruptFileError:
        return
    assert numbers.dtype == np.int64
    assert len(numbers) == count
    assert count == 0 or 0 <= numbers.min() <= numbers.max() < 2**32


def test_an_empty_run_does_not_hold_up_the_reader():
    with pytest.raises(CorruptFileError, match="empty"):
        decode_hybrid(b"\0\0" * 100, 8, 5)
