"""The boxes that make up an MP4 file. Nothing they declare is trusted."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roboreel.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from roboreel.io.reading import SpanReader

# A fragmented file has two boxes per fragment: enough for a day at five fragments a second.
_MAX_FILE_BOXES = 1_000_000
_HEADER = struct.Struct(">I4s")


class Box(NamedTuple):
    """A box in memory: its type and its content."""

    kind: bytes
    data: memoryview


class FileBox(NamedTuple):
    """A box of the outermost level, still in the file."""

    kind: bytes
    start: int
    """Where the box begins, header included."""
    body: int
    """Where its content begins."""
    stop: int
    """Where it ends, or where the file does if that comes first."""
    is_whole: bool
    """Whether the file holds as many bytes as the box declares; False if it declares none."""


def file_boxes(file: SpanReader, *, limit: int = _MAX_FILE_BOXES) -> Iterator[FileBox]:
    """Yield the outermost boxes of a file; if the last one is cut off, it ends with the file.

    Raises:
        CorruptFileError: A box is shorter than its header, or there are more than ``limit``.
    """
    size_bytes = file.size_bytes
    start = count = 0
    while len(header := file.read(start, min(start + 16, size_bytes))) >= 8:
        if count == limit:
            raise CorruptFileError(f"There are more than {limit:,} boxes at the outermost level.")
        kind, length, body = _header(header, 0, len(header))
        stop = min(start + (length or size_bytes), size_bytes)
        yield FileBox(kind, start, start + body, stop, is_whole=stop - start == length)
        start, count = stop, count + 1


def children(data: memoryview) -> Iterator[Box]:
    """Yield the boxes inside a box.

    Raises:
        CorruptFileError: A box is shorter than its header, or longer than the box around it.
    """
    # A file of one episode has a hundred boxes, and half of parsing it is this loop.
    start, size = 0, len(data)
    while size - start >= 8:
        kind, length, body = _header(data, start, size - start)
        stop = start + length if length else size
        if stop > size:
            raise CorruptFileError(f"Box {kind!r} does not fit into the box around it.")
        yield Box(kind, data[start + body : stop])
        start = stop


def _header(data: bytes | memoryview, start: int, left: int) -> tuple[bytes, int, int]:
    """Return type and length of the box at a position, and how long its header is.

    Args:
        data: Holds at least the first 8 bytes of it.
        start: Where it begins.
        left: How many bytes there are from there on.
    """
    length, kind = _HEADER.unpack_from(data, start)
    body = 8
    if length == 1 and left >= 16:
        length, body = number(data, "Q", start + 8), 16
    if length < body and (length, body) != (0, 8):
        raise CorruptFileError(f"Box {kind!r} declares a length of {length} bytes.")
    return kind, length, body


class Inside:
    """The boxes inside a box, walked once however many are asked for, and no further than needed.

    Args:
        data: The content of the box around them.
    """

    __slots__ = ("_inside", "_left", "_seen", "data")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._left = children(data)
        self._seen: dict[bytes, memoryview] = {}
        self._inside: dict[bytes, Inside] = {}

    def find(self, *path: bytes) -> memoryview | None:
        """Return the content of the first box on a path of types; None if there is none."""
        kind = path[0]
        while kind not in self._seen:
            box = next(self._left, None)
            if box is None:
                return None
            self._seen.setdefault(box.kind, box.data)
        if len(path) == 1:
            return self._seen[kind]
        inside = self._inside.get(kind)
        if inside is None:
            inside = self._inside[kind] = Inside(self._seen[kind])
        return inside.find(*path[1:])

    def require(self, *path: bytes) -> memoryview:
        """Return the content of the first box on a path of types.

        Raises:
            CorruptFileError: There is no such box.
        """
        found = self.find(*path)
        if found is None:
            raise CorruptFileError(f"There is no box {b'/'.join(path).decode('latin-1')!r}.")
        return found


def number(data: bytes | memoryview, code: str, at: int) -> int:
    """Return one big-endian integer, by its `struct` code.

    Raises:
        CorruptFileError: It lies beyond the end of the box.
    """
    try:
        (value,) = struct.unpack_from(f">{code}", data, at)
    except struct.error:
        raise CorruptFileError(f"A box is cut off after {len(data)} bytes.") from None
    return int(value)


def array(data: memoryview, dtype: str | np.dtype[Any], at: int, count: int) -> NDArray[Any]:
    """Return consecutive big-endian numbers of a box, without copying them.

    Raises:
        CorruptFileError: The box is too small to hold them.
    """
    room = max(len(data) - at, 0) // np.dtype(dtype).itemsize
    if count > room:
        raise CorruptFileError(f"A box declares {count:,} entries and has room for {room:,}.")
    return np.frombuffer(data, dtype, count, at) if count else np.empty(0, dtype)
