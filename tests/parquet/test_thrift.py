"""Structs in Thrift's compact encoding."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.thrift import BOOL, INT, TruncatedError, read_struct
from roboreel.varint import decode_varint, encode_varint

INT_FIELDS = st.dictionaries(st.integers(1, 200), st.integers(-(2**31), 2**31 - 1))


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def field(number: int, previous: int, kind: int) -> bytes:
    step = number - previous
    return bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + zigzag(number)


def struct_of(fields: dict[int, int | bytes]) -> bytes:
    encoded, previous = b"", 0
    for number, value in sorted(fields.items()):
        if isinstance(value, int):
            encoded += field(number, previous, 6) + zigzag(value)
        else:
            encoded += field(number, previous, 8) + varint(len(value)) + value
        previous = number
    return encoded + b"\0"


@given(st.integers(0, 2**63 - 1), st.binary(max_size=3))
def test_seven_bit_groups_come_back(value, after):
    encoded = encode_varint(value)
    assert encoded == varint(value)
    assert decode_varint(after + encoded + after, len(after)) == (value, len(after + encoded))


@given(INT_FIELDS)
def test_integers_come_back(fields):
    data = struct_of(fields)
    assert read_struct(data, 0, dict.fromkeys(fields, INT)) == (fields, len(data))


@given(INT_FIELDS, st.binary(max_size=300), st.sets(st.integers(1, 200)))
def test_what_is_not_wanted_is_skipped(fields, text, wanted):
    data = struct_of({**fields, 201: text, 202: 7})
    found, position = read_struct(data, 0, {**dict.fromkeys(wanted, INT), 202: INT})
    assert found == {number: fields[number] for number in wanted & fields.keys()} | {202: 7}
    assert position == len(data)
    assert read_struct(b"\x1c" + data + b"\0", 0, {}) == ({}, len(data) + 2)


@given(INT_FIELDS, st.integers(1, 200))
def test_reading_starts_in_the_middle_of_a_struct(fields, after):
    later = {number + after: value for number, value in fields.items()}
    data = struct_of({after: 1, **later})
    start = len(struct_of({after: 1})) - 1
    assert read_struct(data, start, dict.fromkeys(later, INT), after=after)[0] == later


def test_booleans_live_in_the_type():
    assert read_struct(b"\x11\x12\0", 0, {1: BOOL, 2: BOOL}) == ({1: True, 2: False}, 3)


def test_a_field_of_another_type_is_refused():
    with pytest.raises(CorruptFileError, match="type 6, not 1"):
        read_struct(struct_of({1: 5}), 0, {1: BOOL})


@pytest.mark.parametrize("bomb", [b"\x1c" * 100_000, b"\x19\x19" * 100_000, b"\x19" * 100_000])
def test_structs_and_lists_nested_without_end_are_refused(bomb):
    with pytest.raises(CorruptFileError, match="nested too deep"):
        read_struct(bomb, 0, {})


@pytest.mark.parametrize("item", [1, 5, 8, 12])
def test_a_list_longer_than_its_bytes_is_refused_before_it_is_read(item):
    data = bytes([0x19, 0xF0 | item]) + varint(2**31) + b"\0" * 20
    with pytest.raises(TruncatedError, match=str(2**31)):
        read_struct(data, 0, {})


def test_a_number_without_end_is_refused():
    with pytest.raises(CorruptFileError, match="nine bytes"):
        read_struct(b"\x16" + b"\xff" * 1000, 0, {1: INT})


@given(data=st.binary(max_size=200))
def test_any_bytes_give_fields_or_a_clear_error(data):
    for wanted in ({}, {1: INT, 3: BOOL, 4: {1: INT}}):
        with suppress(CorruptFileError):
            read_struct(data, 0, wanted)
