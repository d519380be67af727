"""Files opened for reading: by span, whole, or by pyarrow and FFmpeg."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from roboreel.errors import CorruptFileError, MissingFileError, TooManyFilesError
from roboreel.files import open_regular
from roboreel.io.lfs import LFS_ADVICE, MOST_POINTER_BYTES, is_lfs_pointer, starts_as_pointer
from roboreel.io.sources import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import (  # for type checkers alone: typing has it from 3.11 on
        Buffer,
        Self,
    )

MOST_METADATA_BYTES = 256 * 1024**2
"""The largest file of metadata that is read whole: lines for a million episodes take 100 MB."""

_HAS_PREAD = hasattr(os, "pread")


def open_to_read(path: Path, noun: str = "file") -> tuple[int, os.stat_result]:
    """Return a handle of a regular file, and its state. The caller closes the handle.

    Args:
        path: The file. Links are followed.
        noun: What the file is, for the error: ``"video file"``.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, cannot be opened, or is a Git LFS pointer.
        TooManyFilesError: The limit of open files is reached.
    """
    try:
        handle, status = open_regular(path, noun)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFileError(f"There is no {noun} {str(path)!r}.") from error
    except CorruptFileError:
        raise
    except ValueError as error:  # A name with a null byte, or with half of a surrogate pair.
        raise CorruptFileError(f"No {noun} can be called {str(path)!r}.") from error
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise too_many_files(path) from error
        raise CorruptFileError(
            f"Cannot open the {noun} ({error.strerror}): {str(path)!r}."
        ) from error
    if status.st_size <= MOST_POINTER_BYTES and starts_as_pointer(handle):
        os.close(handle)
        raise CorruptFileError(f"The {noun} {LFS_ADVICE}: {str(path)!r}.")
    return handle, status


def too_many_files(path: Path) -> TooManyFilesError:
    """Return the error for a file that cannot be opened since too many are open."""
    return TooManyFilesError(
        errno.EMFILE,
        "Too many files are open in this process. Close datasets that are not needed, or raise the "
        "limit with `ulimit -n`",
        str(path),
    )


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
