"""Protocol Buffers, as far as an .rrd file needs them: fields in and out of bytes."""

from __future__ import annotations

__all__ = ["nested", "number", "read_fields", "tag", "varint"]

_VARINT, _FIXED_64, _NESTED = 0, 1, 2


def varint(value: int) -> bytes:
    r"""Return a number in seven bits a byte, the lowest first.

    Examples:
        >>> varint(300)
        b'\xac\x02'
    """
    if value < 128:
        return bytes((value,))
    low, high = value & 127 | 128, value >> 7
    return bytes((low,)) + varint(high)


def tag(field: int) -> bytes:
    """Return what stands before the length of a field of bytes."""
    return varint(field << 3 | _NESTED)


def nested(field: int, data: bytes) -> bytes:
    """Return a field of bytes, of text, or of a message."""
    return tag(field) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    """Return a field of a number."""
    return varint(field << 3 | _VARINT) + varint(value)


def read_fields(data: bytes) -> dict[int, int | bytes]:
    """Return the fields of a message, each of which is there once.

    Raises:
        ValueError: The bytes are no such message.
    """
    fields: dict[int, int | bytes] = {}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        field, kind = key >> 3, key & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = _read_varint(data, at)
        elif kind in (_FIXED_64, _NESTED):
            size, at = (8, at) if kind == _FIXED_64 else _read_varint(data, at)
            value, at = data[at : at + size], at + size
            if at > len(data):
                raise ValueError(f"field {field} is cut off")
        else:
            raise ValueError(f"field {field} is of kind {kind}")
        if field in fields:
            raise ValueError(f"field {field} is there twice")
        fields[field] = value
    return fields


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise ValueError("a number is cut off")
