"""Bytes of a file, copied span by span."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.spans.handles import open_to_read

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = ["MOST_METADATA_BYTES", "SpanReader", "check_small", "read_file"]

MOST_METADATA_BYTES = 256 * 1024**2
"""The largest file of metadata that is read whole: lines for a million episodes take 100 MB."""


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


def read_file(path: Path, noun: str = "file", *, most_bytes: int = MOST_METADATA_BYTES) -> bytes:
    """Return all bytes of a small file.

    Args:
        path: The file.
        noun: What the file is, for errors.
        most_bytes: How large it may be.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, is too large, or cannot be read.
    """
    with SpanReader(path, noun) as reader:
        check_small(reader.size_bytes, path, noun, most_bytes)
        return reader.read(0, reader.size_bytes)


def check_small(
    size_bytes: int, path: Path, noun: str = "file", most_bytes: int = MOST_METADATA_BYTES
) -> None:
    """Raise if a file that is read whole is larger than such files are.

    Raises:
        CorruptFileError: It is.
    """
    if size_bytes > most_bytes:
        raise CorruptFileError(
            f"The {noun} has {size_bytes:,} bytes: at most {most_bytes:,} are read: {str(path)!r}."
        )


def _read_at(handle: int, start: int, count: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(handle, count, start)
    os.lseek(handle, start, os.SEEK_SET)  # Windows. The handle belongs to one thread.
    return os.read(handle, count)
