"""The boxes that an MP4 file is made of, read without trust in what they say."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from roboreel.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["Box", "FileBox", "array", "children", "file_boxes", "find", "number", "require"]

# A fragmented film has two boxes per fragment: this allows a day of them at four a second.
_MAX_FILE_BOXES = 1_000_000


class Box(NamedTuple):
    """A box in memory: its type and what it holds."""

    kind: bytes
    data: memoryview


class FileBox(NamedTuple):
    """A box of the outermost level, still in the file."""

    kind: bytes
    start: int
    """Where the box begins, its header included."""
    body: int
    """Where its content begins."""
    stop: int


def file_boxes(file: BinaryIO, size_bytes: int) -> Iterator[FileBox]:
    """Yield the outermost boxes of a file; a last box that was cut off ends with the file."""
    start = 0
    for _ in range(_MAX_FILE_BOXES):
        file.seek(start)
        header = file.read(16)
        if len(header) < 8:
            return
        length, body = _lengths(header, size_bytes - start)
        stop = min(start + length, size_bytes)
        yield FileBox(header[4:8], start, start + body, stop)
        start = stop
    raise CorruptFileError(f"More than {_MAX_FILE_BOXES:,} boxes at the outermost level.")


def children(data: memoryview) -> Iterator[Box]:
    """Yield the boxes inside a box.

    Raises:
        CorruptFileError: A box is larger than what holds it.
    """
    start = 0
    while start + 8 <= len(data):
        header = bytes(data[start : start + 16])
        length, body = _lengths(header, len(data) - start)
        if start + length > len(data):
            raise CorruptFileError(f"Box {header[4:8]!r} does not fit into the box around it.")
        yield Box(header[4:8], data[start + body : start + length])
        start += length


def _lengths(header: bytes, room: int) -> tuple[int, int]:
    """Return the length of a box, and that of its header."""
    length, body = int.from_bytes(header[:4], "big"), 8
    if length == 1 and len(header) == 16:
        length, body = int.from_bytes(header[8:], "big"), 16
    elif length == 0:  # To the end of what is around it.
        length = room
    if length < body:
        raise CorruptFileError(f"Box {header[4:8]!r} declares {length} bytes in all.")
    return length, body


def find(data: memoryview, *path: bytes) -> memoryview | None:
    """Return what the first box on a path of types holds; None if there is none."""
    for kind in path:
        inner = next((box.data for box in children(data) if box.kind == kind), None)
        if inner is None:
            return None
        data = inner
    return data


def require(data: memoryview, *path: bytes) -> memoryview:
    """Return what the first box on a path of types holds.

    Raises:
        CorruptFileError: There is no such box.
    """
    found = find(data, *path)
    if found is None:
        raise CorruptFileError(f"There is no box {b'/'.join(path).decode('latin-1')!r}.")
    return found


def number(data: memoryview, code: str, at: int) -> int:
    """Return one big-endian integer, by its `struct` code.

    Raises:
        CorruptFileError: The box ends before it.
    """
    try:
        (value,) = struct.unpack_from(f">{code}", data, at)
    except struct.error:
        raise CorruptFileError(f"A box ends after {len(data)} bytes, before its fields.") from None
    return int(value)


def array(data: memoryview, dtype: str | np.dtype[Any], at: int, count: int) -> NDArray[Any]:
    """Return big-endian numbers that lie in a box one after another, without a copy.

    Raises:
        CorruptFileError: The box is too small for so many.
    """
    room = max(len(data) - at, 0) // np.dtype(dtype).itemsize
    if count > room:
        raise CorruptFileError(f"A box declares {count:,} entries and has room for {room:,}.")
    return np.frombuffer(data, dtype, count, at) if count else np.empty(0, dtype)
