"""Parquet's run-length and bit-packing hybrid, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.varint import decode_varint

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode_hybrid"]

_WIDEST = 32


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
    filled = position = 0
    while filled < count:
        try:
            header, position = decode_varint(data, position)
        except IndexError as error:
            raise CorruptFileError(
                "The levels or dictionary positions of a page end before its last value."
            ) from error
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
        if length == 0 or position > len(data) + width:
            raise CorruptFileError("A run of levels or dictionary positions is empty or truncated.")
        filled += taken
    return numbers


def _unpack(packed: bytes, width: int, count: int) -> NDArray[np.int64]:
    if len(packed) * 8 < count * width:
        raise CorruptFileError("Bit-packed levels or dictionary positions are truncated.")
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=count * width, bitorder="little")
    return bits.reshape(count, width) @ (1 << np.arange(width, dtype=np.int64))
