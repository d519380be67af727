"""Unsigned integers in seven-bit groups, as Parquet, Snappy and AV1 write them."""

from __future__ import annotations

from roboreel.errors import CorruptFileError


def decode_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    Raises:
        IndexError: The data ends inside the number.
        CorruptFileError: The number has more than nine bytes: 63 bits hold every offset and count.
    """
    value = shift = 0
    while shift < 63:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise CorruptFileError("A number has more than nine bytes.")


def encode_varint(value: int) -> bytes:
    """Return the bytes of a number.

    Examples:
        >>> encode_varint(300).hex()
        'ac02'
    """
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
