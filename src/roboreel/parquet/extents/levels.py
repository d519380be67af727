"""Parquet's run-length and bit-packing hybrid, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.varint import decode_varint

if TYPE_CHECKING:
    from numpy.typing import NDArray


_WIDEST = 32
_TRUNCATED = "Bit-packed levels or dictionary positions are truncated."
# The bits of every byte as bytes of their own, the lowest first.
_SPREAD = tuple(bytes(byte >> bit & 1 for bit in range(8)) for byte in range(256))


def decode_hybrid(data: bytes, width: int, count: int) -> NDArray[np.int64]:
    """Return the numbers in a run-length and bit-packing hybrid.

    Args:
        data: The runs, without a length before them; bytes after the last value are ignored.
        width: Bits of a number, 0 to 32.
        count: How many numbers to return; the caller has checked that this is reasonable.

    Raises:
        CorruptFileError: The runs end too early, or the width is out of range.
    """
    if not 0 <= width <= _WIDEST:
        raise CorruptFileError(f"A bit width is {width}: 0 to {_WIDEST} are possible.")
    numbers = np.zeros(count, np.int64)
    if width == 0:
        return numbers
    if width == 1:
        numbers[:] = np.frombuffer(_decode_bits(data, count), np.uint8)
        return numbers
    filled = position = 0
    while filled < count:
        header, position = _header(data, position)
        length = header >> 1
        if header & 1:
            taken = min(length * 8, count - filled)
            packed = data[position : position + length * width]
            numbers[filled : filled + taken] = _unpack(packed, width, taken)
            position += length * width
        else:
            taken = min(length, count - filled)
            value = data[position : position + (width + 7) // 8]
            numbers[filled : filled + taken] = int.from_bytes(value, "little")
            position += (width + 7) // 8
        _check_run(length, position, len(data) + width)
        filled += taken
    return numbers


def _decode_bits(data: bytes, count: int) -> bytes:
    """Return numbers of one bit as bytes: a few steps for each run, of which levels have many."""
    parts = []
    filled = position = 0
    while filled < count:
        header, position = _header(data, position)
        length = header >> 1
        if header & 1:
            packed = data[position : position + min(length, (count - filled + 7) // 8)]
            if len(packed) * 8 < min(length * 8, count - filled):
                raise CorruptFileError(_TRUNCATED)
            parts.append(b"".join([_SPREAD[byte] for byte in packed]))
            position += length
            taken = len(packed) * 8
        else:
            taken = min(length, count - filled)
            parts.append((data[position : position + 1] or b"\0") * taken)
            position += 1
        _check_run(length, position, len(data) + 1)
        filled += taken
    return b"".join(parts)[:count]


def _header(data: bytes, position: int) -> tuple[int, int]:
    """Return the header of a run, and where it ends."""
    try:
        return decode_varint(data, position)
    except IndexError as error:
        raise CorruptFileError(
            "The levels or dictionary positions of a page end before its last value."
        ) from error


def _check_run(length: int, position: int, limit: int) -> None:
    if length == 0 or position > limit:
        raise CorruptFileError("A run of levels or dictionary positions is empty or truncated.")


def _unpack(packed: bytes, width: int, count: int) -> NDArray[np.int64]:
    if len(packed) * 8 < count * width:
        raise CorruptFileError(_TRUNCATED)
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=count * width, bitorder="little")
    return bits.reshape(count, width) @ (1 << np.arange(width, dtype=np.int64))
