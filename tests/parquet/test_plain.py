"""Lengths of byte strings that stand one after another."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.plain import walk_lengths

LENGTHS = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 5000)), max_size=60)


@given(LENGTHS, st.integers(0, 9))
def test_every_length_is_found_with_few_bytes_read(lengths, start):
    page: bytes = b"?" * start + b"".join(struct.pack("<I", n) + b"\xff" * n for n in lengths)
    read_bytes = 0

    def read(position: int, length: int) -> bytes:
        nonlocal read_bytes
        assert position + length <= len(page)
        read_bytes += length
        return page[position : position + length]

    found = walk_lengths(read, start, len(page), len(lengths))
    assert found.tolist() == lengths
    assert read_bytes <= len(page) + 4 * len(
        lengths
    )  # a length at the end of a window is read again


@given(LENGTHS.filter(bool), st.integers(1, 2**32 - 1))
def test_a_value_that_goes_past_the_end_is_refused(lengths, excess):
    lengths[-1] = min(lengths[-1] + excess, 2**32 - 1)
    page = b"".join(struct.pack("<I", n) + b"\xff" * n for n in lengths[:-1])
    page += struct.pack("<I", lengths[-1]) + b"\xff" * (
        lengths[-1] - excess if excess < 9000 else 0
    )
    with pytest.raises(CorruptFileError, match="past the end"):
        walk_lengths(lambda at, length: page[at : at + length], 0, len(page), len(lengths))
