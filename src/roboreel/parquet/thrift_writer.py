"""Structs written in Thrift's compact encoding, as far as Parquet's footers need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.parquet.extents.thrift import I16, I32, I64, LIST, STRUCT
from roboreel.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Value = tuple[int, bytes]
"""A Thrift type, and the bytes of a value of that type."""


def i16(value: int) -> Value:
    """Return a whole number."""
    return I16, _zigzag(value)


def i32(value: int) -> Value:
    """Return a whole number."""
    return I32, _zigzag(value)


def i64(value: int) -> Value:
    """Return a whole number."""
    return I64, _zigzag(value)


def list_of(items: Sequence[Value]) -> Value:
    """Return a list of values of one type; at least one.

    Examples:
        >>> list_of([i32(3), i32(0)])[1].hex()
        '250600'
    """
    (item_type,) = {item_type for item_type, _ in items}
    count = len(items)
    short = count < 15
    header = (
        bytes([count << 4 | item_type])
        if short
        else (bytes([0xF0 | item_type]) + encode_varint(count))
    )
    return LIST, header + b"".join(data for _, data in items)


def struct(fields: Mapping[int, Value]) -> Value:
    """Return a struct of fields by number."""
    encoded = bytearray()
    previous = 0
    for number, (field_type, data) in sorted(fields.items()):
        step = number - previous
        if step < 16:
            encoded.append(step << 4 | field_type)
        else:
            encoded.append(field_type)
            encoded += _zigzag(number)
        encoded += data
        previous = number
    return STRUCT, bytes(encoded) + b"\0"


def _zigzag(value: int) -> bytes:
    return encode_varint(value << 1 if value >= 0 else (-value << 1) - 1)
