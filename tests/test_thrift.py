"""Structs in Thrift's compact encoding."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.errors import CorruptFileError
from roboreel.storage.extents.thrift import (
    BINARY,
    BOOL,
    INT,
    CompactReader,
    TruncatedError,
    whole_structs,
)

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


@given(INT_FIELDS)
def test_integers_come_back(fields):
    reader = CompactReader(struct_of(fields))
    assert reader.struct(dict.fromkeys(fields, INT)) == fields
    assert reader.position == len(reader.data)


@given(INT_FIELDS, st.binary(max_size=300), st.sets(st.integers(1, 200)))
def test_what_is_not_wanted_is_skipped(fields, text, wanted):
    data = struct_of({**fields, 201: text})
    reader = CompactReader(data)
    found = reader.struct({**dict.fromkeys(wanted, INT), 201: BINARY})
    assert found == {number: fields[number] for number in wanted & fields.keys()} | {201: text}
    skipping = CompactReader(data)
    skipping.skip_structs(1)
    assert skipping.position == reader.position


def test_booleans_live_in_the_type():
    assert CompactReader(b"\x11\x12\0").struct({1: BOOL, 2: BOOL}) == {1: True, 2: False}


def test_a_field_of_another_type_is_refused():
    with pytest.raises(CorruptFileError, match="type 6, not 8"):
        CompactReader(struct_of({1: 5})).struct({1: BINARY})


@pytest.mark.parametrize("bomb", [b"\x1c" * 100_000, b"\x19\x19" * 100_000, b"\x19" * 100_000])
def test_structs_and_lists_nested_without_end_are_refused(bomb):
    with pytest.raises(CorruptFileError, match="nested too deep"), whole_structs():
        CompactReader(bomb).struct({})


@pytest.mark.parametrize("item", [1, 5, 8, 12])
def test_a_list_longer_than_its_bytes_is_refused_before_it_is_read(item):
    data = bytes([0x19, 0xF0 | item]) + varint(2**31) + b"\0" * 20
    with pytest.raises(TruncatedError, match=str(2**31)):
        CompactReader(data).struct({})
    reader = CompactReader(data[1:])
    with pytest.raises(TruncatedError, match=str(2**31)):
        reader.items(9)


def test_a_number_without_end_is_refused():
    with pytest.raises(CorruptFileError, match="nine bytes"), whole_structs():
        CompactReader(b"\x16" + b"\xff" * 1000).struct({1: INT})


@pytest.mark.parametrize("skipped", [False, True])
@given(data=st.binary(max_size=200))
def test_any_bytes_give_fields_or_a_clear_error(skipped, data):
    reader = CompactReader(data)
    with suppress(CorruptFileError), whole_structs():
        if skipped:
            reader.skip_structs(2)
        else:
            reader.struct({1: INT, 2: BINARY, 3: BOOL, 4: {1: INT}})
