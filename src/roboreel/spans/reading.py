"""Bytes of a file, copied span by span."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.spans.handles import open_to_read

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = ["SpanReader", "read_file"]


class SpanReader:
    """An open file that is read by spans; a context manager, for one thread at a time.

    Args:
        path: The file.
        noun: What the file is, for errors.
    """

    __slots__ = ("_handle", "_noun", "path", "size_bytes")

    def __init__(self, path: Path, noun: str = "file") -> None:
        self.path = path
        self._noun = noun
        self._handle, status = open_to_read(path, noun)
        self.size_bytes = status.st_size
        """How large the file was when it was opened."""

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``.

        Raises:
            CorruptFileError: The file ends before ``stop``.
        """
        data = _read_at(self._handle, start, stop - start)
        while len(data) < stop - start:  # A read may return less than was asked for.
            more = _read_at(self._handle, start + len(data), stop - start - len(data))
            if not more:
                raise CorruptFileError(
                    f"The {self._noun} ends at byte {start + len(data):,}, but bytes {start:,} to "
                    f"{stop:,} are needed: {str(self.path)!r}."
                )
            data += more
        return data

    def __enter__(self) -> SpanReader:  # noqa: PYI034  # Self is in Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)


def read_file(path: Path, noun: str = "file") -> bytes:
    """Return all bytes of a small file.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, or cannot be read.
    """
    with SpanReader(path, noun) as reader:
        return reader.read(0, reader.size_bytes)


def _read_at(handle: int, start: int, count: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(handle, count, start)
    os.lseek(handle, start, os.SEEK_SET)  # Windows. The handle belongs to one thread.
    return os.read(handle, count)
