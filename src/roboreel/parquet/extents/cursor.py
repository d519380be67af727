"""Positions in bytes that move together: one NumPy step reads a number at each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Headers of fields in Thrift: the distance from the field before, and the type.
NEXT_I32, NEXT_I64, SECOND_NEXT_I64 = 0x15, 0x16, 0x26
_WORD_BYTES = 8
_GOES_ON = np.uint64(0x8080808080808080)
_ONE, _BYTE = np.uint64(1), np.uint64(8)


def _words_of(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the number that the eight bytes from each place on are, ``(N - 7,)``; no copy."""
    return np.ndarray((len(data) - _WORD_BYTES + 1,), "<u8", data, strides=(1,))


def _varints(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number in seven-bit groups at the beginning of each word, and its bytes.

    The second is not positive where a number is longer than the word.
    """
    ends = ~words & _GOES_ON
    end = ends & (~ends + _ONE)  # The highest bit of the last byte, alone.
    # A power of two, as the exponent of a double: two to the power of 8 n - 1.
    sizes = ((end.astype(np.float64).view(np.int64) >> 52) - 1022) >> 3
    value = words & (end - _ONE)
    value &= ~_GOES_ON
    for shift, keep in _HALVES:
        value = (value & keep) | ((value & ~keep) >> shift)
    return value.view(np.int64), sizes


_HALVES = (
    (np.uint64(1), np.uint64(0x007F007F007F007F)),
    (np.uint64(2), np.uint64(0x00003FFF00003FFF)),
    (np.uint64(4), np.uint64(0x000000000FFFFFFF)),
)
"""How groups of seven bits move together: pairs, pairs of pairs, and the two halves."""


def one_of(headers: NDArray[np.uint8], *wanted: int) -> NDArray[np.bool_]:
    """Return which bytes are one of a few."""
    table = np.zeros(256, np.bool_)
    table[list(wanted)] = True
    return table[headers]


class Cursor:
    """Positions in bytes that move together.

    Args:
        data: The bytes, at least eight.
        at: The positions.
    """

    def __init__(self, data: NDArray[np.uint8], at: NDArray[np.int64]) -> None:
        self._data = data
        self._words = _words_of(data)
        self._last = len(data) - 1
        self.at = at.copy()
        self.sound = np.ones(len(at), np.bool_)
        """Where all headers were as expected."""

    def headers(self) -> NDArray[np.uint8]:
        """Return the byte at each position."""
        return self._data[np.minimum(self.at, self._last)]

    def number(self, header: int, where: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Read a field of whole numbers that has this header; 0 where there is none."""
        last = len(self._words) - 1
        words = self._words[np.minimum(self.at, last)]
        value, size = _varints(words >> _BYTE)
        # The byte that was shifted in would end a number of seven bytes: too long for an offset.
        sound = ((words & np.uint64(255)) == header) & (size <= 7) & (self.at <= last)
        step = size + 1
        if where is not None:
            sound |= ~where
            step, value = step * where, value * where
        self.sound &= sound
        self.at += step
        return (value >> 1) ^ -(value & 1)
