"""Byte strings in Parquet's plain encoding: each follows its length."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


_FIRST_WINDOW_BYTES = 64
_LAST_WINDOW_BYTES = 1 << 20
_LENGTH = struct.Struct("<I")


def walk_lengths(
    read: Callable[[int, int], bytes], position: int, stop: int, count: int
) -> NDArray[np.int64]:
    """Return the lengths of byte strings, each of which follows its length.

    Args:
        read: Returns bytes of the page: ``read(position, length)``.
        position: Position of the first length.
        stop: End of the page.
        count: How many byte strings there are.
    """
    lengths = array("q")
    window, origin, limit, window_bytes = b"", position, -1, _FIRST_WINDOW_BYTES // 2
    inside = 0  # position of the next length, counted from the start of the window
    for _ in range(count):
        if inside > limit:
            # Long values are skipped; among short ones the window grows.
            near = inside < len(window) + _FIRST_WINDOW_BYTES
            window_bytes = min(window_bytes * 2, _LAST_WINDOW_BYTES) if near else 4
            origin += inside
            window = read(origin, max(4, min(window_bytes, stop - origin)))
            inside, limit = 0, len(window) - 4
        (length,) = _LENGTH.unpack_from(window, inside)
        inside += 4 + length
        if origin + inside > stop:
            raise CorruptFileError(f"A value of {length} bytes goes past the end of its page.")
        lengths.append(length)
    return np.frombuffer(lengths, np.int64) if lengths else np.empty(0, np.int64)
