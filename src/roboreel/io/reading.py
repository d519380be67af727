"""Bytes of a file, copied span by span."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, BinaryIO

from roboreel.errors import CorruptFileError
from roboreel.io.handles import open_to_read
from roboreel.io.lfs import LFS_ADVICE, MOST_POINTER_BYTES, is_lfs_pointer
from roboreel.io.sources import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self  # for type checkers alone: typing has it from 3.11 on

MOST_METADATA_BYTES = 256 * 1024**2
"""The largest file of metadata that is read whole: lines for a million episodes take 100 MB."""

_HAS_PREAD = hasattr(os, "pread")


class SpanReader:
    """An open file that is read by spans; a context manager, for one thread at a time.

    Args:
        path: The file.
        noun: What the file is, for errors.
    """

    __slots__ = ("_handle", "_noun", "path", "size_bytes")

    def __new__(cls, path: Path, noun: str = "file") -> Self:
        """Return a reader of a plain file, or of one whose bytes come from a source."""
        del noun
        # Chosen once, so that reads of plain files never ask.
        chosen: type[Self] = cls if source_of(path) is None else _SourceReader  # type: ignore[assignment]
        return object.__new__(chosen)

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

    def fetch(self, spans: Iterable[tuple[int, int]], *, keep: bool = False) -> None:
        """Have spans at hand before they are read, all in one round; a plain file always has.

        Args:
            spans: What will be read. What lies outside the file is left out.
            keep: Whether they are worth keeping when others go: an index, a footer.
        """

    def __enter__(self) -> SpanReader:  # noqa: PYI034  # Self is in Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)


class _SourceReader(SpanReader):
    """A file whose bytes come from a source."""

    __slots__ = ("_bytes",)

    def __init__(self, path: Path, noun: str = "file") -> None:
        self.path = path
        self._noun = noun
        source = source_of(path)
        assert source is not None
        self._bytes = source.open(path, noun)
        self.size_bytes = self._bytes.size_bytes
        if self.size_bytes <= MOST_POINTER_BYTES and is_lfs_pointer(path):
            raise CorruptFileError(f"The {noun} {LFS_ADVICE}: {str(path)!r}.")

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``."""
        if stop > self.size_bytes:
            raise CorruptFileError(
                f"The {self._noun} ends at byte {self.size_bytes:,}, but bytes {start:,} to "
                f"{stop:,} are needed: {str(self.path)!r}."
            )
        return self._bytes.read(start, stop)

    def fetch(self, spans: Iterable[tuple[int, int]], *, keep: bool = False) -> None:
        """Have spans at hand before they are read."""
        self._bytes.fetch(spans, keep=keep)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bytes.close()


def open_stream(
    path: Path, noun: str = "file", *, most_bytes: int = MOST_METADATA_BYTES
) -> BinaryIO:
    """Return a small file, open for reading from its beginning; the caller closes it.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, or too large.
    """
    if source_of(path) is not None:
        return io.BytesIO(read_file(path, noun, most_bytes=most_bytes))
    handle, status = open_to_read(path, noun)
    file = os.fdopen(handle, "rb")
    try:
        check_small(status.st_size, path, noun, most_bytes)
    except CorruptFileError:
        file.close()
        raise
    return file


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
    if _HAS_PREAD:
        return os.pread(handle, count, start)
    os.lseek(handle, start, os.SEEK_SET)  # Windows. The handle belongs to one thread.
    return os.read(handle, count)
