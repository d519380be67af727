"""The boxes that make up an MP4 file. Nothing they declare is trusted."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roboreel.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from roboreel.spans.reading import SpanReader

__all__ = ["Box", "FileBox", "array", "children", "file_boxes", "find", "number", "require"]

# A fragmented file has two boxes per fragment: enough for a day at five fragments a second.
_MAX_FILE_BOXES = 1_000_000


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

    def read(start: int) -> bytes:
        return file.read(start, min(start + 16, size_bytes))

    for count, (kind, start, body, length) in enumerate(_walk(read, size_bytes)):
        if count == limit:
            raise CorruptFileError(f"There are more than {limit:,} boxes at the outermost level.")
        stop = min(start + (length or size_bytes), size_bytes)
        yield FileBox(kind, start, body, stop, is_whole=stop - start == length)


def children(data: memoryview) -> Iterator[Box]:
    """Yield the boxes inside a box.

    Raises:
        CorruptFileError: A box is shorter than its header, or longer than the box around it.
    """
    for kind, start, body, length in _walk(lambda start: data[start : start + 16], len(data)):
        if start + length > len(data):
            raise CorruptFileError(f"Box {kind!r} does not fit into the box around it.")
        yield Box(kind, data[body : start + length if length else None])


def _walk(
    read: Callable[[int], bytes | memoryview], size_bytes: int
) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield type, start, start of content and length of boxes that follow one another.

    Args:
        read: Returns up to 16 bytes from a position on.
        size_bytes: Size of what holds the boxes. A box of length 0 extends to its end.
    """
    start = 0
    while len(header := bytes(read(start))) >= 8:
        kind, length, body = header[4:8], int.from_bytes(header[:4], "big"), 8
        if length == 1 and len(header) == 16:
            length, body = int.from_bytes(header[8:], "big"), 16
        if length < body and (length, body) != (0, 8):
            raise CorruptFileError(f"Box {kind!r} declares a length of {length} bytes.")
        yield kind, start, start + body, length
        start = min(start + (length or size_bytes), size_bytes)


def find(data: memoryview, *path: bytes) -> memoryview | None:
    """Return the content of the first box on a path of types; None if there is none."""
    for kind in path:
        inner = next((box.data for box in children(data) if box.kind == kind), None)
        if inner is None:
            return None
        data = inner
    return data


def require(data: memoryview, *path: bytes) -> memoryview:
    """Return the content of the first box on a path of types.

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
