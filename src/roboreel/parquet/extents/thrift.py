"""Structs in Thrift's compact encoding, as far as Parquet uses it.

Lengths and counts are compared with the bytes that are left before anything is made of them, so
work and memory stay in proportion to the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from roboreel.errors import CorruptFileError
from roboreel.varint import decode_varint

if TYPE_CHECKING:
    from collections.abc import Mapping


_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 24
"""Parquet nests seven deep."""

_VARINTS = (_I16, _I32, _I64)
INT: Final = (_BYTE, _I16, _I32, _I64)
BOOL: Final = (_TRUE, _FALSE)
I16, I32, I64, BINARY, LIST, STRUCT = _I16, _I32, _I64, _BINARY, _LIST, _STRUCT


class Field(NamedTuple):
    """Where a field's value lies in the bytes of its struct."""

    field_type: int
    start: int
    stop: int


class TruncatedError(CorruptFileError):
    """A struct goes past the end of the bytes at hand."""


def read_struct(
    data: bytes, position: int, wanted: Mapping[int, Any], *, after: int = 0
) -> tuple[dict[int, Any], int]:
    """Return the wanted fields that a struct has, and the position after the struct.

    Args:
        data: Bytes that hold the struct.
        position: Where it starts, or where its next field starts.
        wanted: By field number, `INT`, `BOOL` or, for a struct, the wanted fields inside it.
        after: Number of the field before ``position``, to start in the middle of a struct.

    Raises:
        TruncatedError: The struct goes past the end of the data.
        CorruptFileError: A field has an unexpected type, or the data cannot be Thrift.
    """
    try:
        return _read_struct(data, position, wanted, after)
    except IndexError as error:
        raise TruncatedError("A struct goes past the end of its bytes.") from error


def struct_fields(data: bytes, position: int) -> dict[int, Field]:
    """Return where the fields of a struct lie, by field number.

    Raises:
        TruncatedError: The struct goes past the end of the data.
        CorruptFileError: The data cannot be Thrift.
    """
    fields: dict[int, Field] = {}
    number = 0
    try:
        while header := data[position]:
            position += 1
            if header > 15:
                number += header >> 4
            else:
                number, position = _zigzag(data, position)
            start = position
            position = _skip(data, position, header & 15, 0)
            fields[number] = Field(header & 15, start, position)
    except IndexError as error:
        raise TruncatedError("A struct goes past the end of its bytes.") from error
    return fields


def list_items(data: bytes, field: Field) -> list[Field]:
    """Return where the items of a list lie.

    Raises:
        TruncatedError: The list goes past the end of the data.
        CorruptFileError: The field is no list, or one of truth values.
    """
    _expect(field.field_type, (_LIST,))
    items: list[Field] = []
    try:
        count, item_type, position = _list_header(data, field.start)
        _expect(item_type, (*INT, _BINARY, _STRUCT))
        for _ in range(count):
            start, position = position, _skip(data, position, item_type, 0)
            items.append(Field(item_type, start, position))
    except IndexError as error:
        raise TruncatedError("A list goes past the end of its bytes.") from error
    return items


def _read_struct(
    data: bytes, position: int, wanted: Mapping[int, Any], after: int
) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    number = after
    while header := data[position]:
        position += 1
        if header > 15:
            number += header >> 4
        else:
            number, position = _zigzag(data, position)
        field_type, expected = header & 15, wanted.get(number)
        if expected is None:
            position = _skip(data, position, field_type, 0)
        elif expected is INT and field_type in _VARINTS:
            # Spelled out, here and below: headers of pages are read by the thousand.
            value = data[position]
            position += 1
            if value > 127:
                value, position = decode_varint(data, position - 1)
            found[number] = (value >> 1) ^ -(value & 1)
        elif not isinstance(expected, tuple):
            _expect(field_type, (_STRUCT,))
            found[number], position = _read_struct(data, position, expected, 0)
        else:
            _expect(field_type, expected)
            found[number], position = _value(data, position, field_type)
    return found, position + 1


def _value(data: bytes, position: int, field_type: int) -> tuple[int | bool, int]:
    if field_type in BOOL:
        return field_type == _TRUE, position
    if field_type == _BYTE:
        return data[position], position + 1
    return _zigzag(data, position)


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    value = data[position]
    position += 1
    if value > 127:  # Most are small.
        value, position = decode_varint(data, position - 1)
    return (value >> 1) ^ -(value & 1), position


def _skip(data: bytes, position: int, field_type: int, depth: int) -> int:
    # In the order of how frequent they are.
    if field_type == _BINARY:
        length, position = decode_varint(data, position)
        return _advance(data, position, length)
    if field_type in _VARINTS:
        return decode_varint(data, position)[1]
    if field_type in BOOL:
        return position
    if field_type == _STRUCT:
        return _skip_struct(data, position, depth)
    if field_type in (_LIST, _SET):
        return _skip_list(data, position, depth)
    if field_type == _BYTE:
        return position + 1
    if field_type == _DOUBLE:
        return position + 8
    raise CorruptFileError(f"Thrift type {field_type} is unknown.")


def _skip_struct(data: bytes, position: int, depth: int) -> int:
    if depth > _DEEPEST:
        raise CorruptFileError("Structs are nested too deep.")
    while header := data[position]:
        position += 1
        if header < 16:
            _, position = decode_varint(data, position)
        field_type = header & 15
        if field_type == _BINARY and (length := data[position]) < 128:
            position = _advance(data, position + 1, length)
        elif field_type in _VARINTS and data[position] < 128:
            position += 1
        elif field_type not in BOOL:
            position = _skip(data, position, field_type, depth + 1)
    return position + 1


def _list_header(data: bytes, position: int) -> tuple[int, int, int]:
    header = data[position]
    position += 1
    count, item = header >> 4, header & 15
    if count == 15:
        count, position = decode_varint(data, position)
    return count, item, position


def _skip_list(data: bytes, position: int, depth: int) -> int:
    count, item, position = _list_header(data, position)
    past = _advance(data, position, count)  # every item takes at least one byte
    if item in BOOL:
        return past
    if depth > _DEEPEST:
        raise CorruptFileError("Lists are nested too deep.")
    for _ in range(count):
        position = _skip(data, position, item, depth + 1)
    return position


def _advance(data: bytes, position: int, length: int) -> int:
    if length > len(data) - position:
        raise TruncatedError(f"{length} bytes or items go past the end of their struct.")
    return position + length


def _expect(field_type: int, expected: tuple[int, ...]) -> None:
    if field_type not in expected:
        raise CorruptFileError(f"A field has type {field_type}, not {expected[0]}.")
