"""Files handed to libraries that read them on their own: pyarrow and FFmpeg."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roboreel.io.handles import open_to_read
from roboreel.io.reading import SpanReader
from roboreel.io.sources import source_of

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Buffer  # for type checkers alone


def arrow_file(path: Path) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return a file that pyarrow reads from.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, or cannot be opened.
    """
    if source_of(path) is not None:
        return pa.PythonFile(SpanStream(path), mode="r")
    # Arrow's own allocator keeps what it frees, for every thread that has used it.
    return pa.OSFile(whole_file(path), memory_pool=pa.system_memory_pool())


def whole_file(path: Path, noun: str = "file") -> str | SpanStream:
    """Return the name under which a library finds all bytes of a file, or a stream of them.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, or cannot be opened.
    """
    if source_of(path) is not None:
        stream = SpanStream(path, noun)
        stream.fetch_all()
        return stream
    handle, _ = open_to_read(path, noun)
    os.close(handle)
    return str(path)


class SpanStream(io.RawIOBase):
    """A file that is read through `SpanReader`, for libraries that take a file object."""

    def __init__(self, path: Path, noun: str = "file") -> None:
        super().__init__()
        self.name = str(path)
        self._reader = SpanReader(path, noun)
        self._place = 0

    def fetch_all(self) -> None:
        """Have all bytes at hand."""
        self._reader.fetch([(0, self._reader.size_bytes)])

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a place in the file."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._reader.size_bytes}
        self._place = max(0, base[whence] + offset)
        return self._place

    def tell(self) -> int:
        """Return the place in the file."""
        return self._place

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes; less at the end of the file."""
        end = self._reader.size_bytes
        stop = end if size is None or size < 0 else min(end, self._place + size)
        if stop <= self._place:
            return b""
        data = self._reader.read(self._place, stop)
        self._place = stop
        return data

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill a buffer with the next bytes; return how many there were."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Let go of the file."""
        if not self.closed:
            self._reader.__exit__(None, None, None)
        super().close()
