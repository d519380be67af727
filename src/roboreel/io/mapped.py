"""A file's bytes at any offset, through a read-only map."""

from __future__ import annotations

import errno
import mmap
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.io.reading import open_to_read, too_many_files
from roboreel.io.sources import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from typing_extensions import Self  # for type checkers alone: typing has it from 3.11 on

_MOST_ADVISED_BYTES = 64 * 1024**2
_CAN_ADVISE = hasattr(mmap, "MADV_RANDOM") and hasattr(mmap, "MADV_WILLNEED")  # not on Windows


def check_mapped(path: Path, mapped_bytes: int, size_bytes: int) -> None:
    """Raise if a mapped file has become shorter than what is mapped of it."""
    if size_bytes < mapped_bytes:
        raise CorruptFileError(
            f"The file had {mapped_bytes} bytes when it was opened and has {size_bytes} now. Open "
            f"the dataset again: {str(path)!r}."
        )


def changed_file(path: Path) -> CorruptFileError:
    """Return the error for a file that is no longer the one that was read first."""
    return CorruptFileError(
        f"The file has changed since it was read first. Open the dataset again: {str(path)!r}."
    )


class MappedFile:
    """One file, mapped; the map and its one handle go when the last reference goes.

    There is no ``close``: a thread that is still copying bytes keeps the map alive, so nobody can
    pull it away beneath it.

    A map and not ``pread``, measured on random 40 KB reads of a 402 MB file: warm 3.2 against
    6.2 µs each, one handle either way. Cold, a map that faults page by page takes 930 µs, ``pread``
    119, and a map told beforehand what a batch needs 32 (see `prefetch`).
    """

    __slots__ = ("_map", "_view", "identity", "path", "size_bytes")

    def __new__(cls, path: Path) -> Self:
        """Return a mapped file, or one whose bytes come from a source."""
        # Chosen once, so that reads of plain files never ask.
        chosen: type[Self] = cls if source_of(path) is None else _SourceFile  # type: ignore[assignment]
        return object.__new__(chosen)

    def __init__(self, path: Path) -> None:
        self.path = path
        handle, status = open_to_read(path)
        try:
            self.size_bytes = status.st_size
            self.identity = (status.st_ino, status.st_size, status.st_mtime_ns)
            if status.st_size == 0:
                raise CorruptFileError(f"The file is empty: {str(path)!r}.")
            self._map = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            if isinstance(error, CorruptFileError):
                raise
            if isinstance(error, OSError) and error.errno == errno.EMFILE:  # A map has a handle.
                raise too_many_files(path) from error
            raise CorruptFileError(f"Cannot map {str(path)!r}: {error}.") from error
        finally:
            os.close(handle)
        if _CAN_ADVISE:
            # The default fetches up to 150 times the useful bytes on a disk with long read-ahead.
            with suppress(OSError):
                self._map.madvise(mmap.MADV_RANDOM)
        self._view = memoryview(self._map)

    @property
    def version(self) -> tuple[int, int] | None:
        """What changes when the file is replaced, as `version_of` returns it."""
        _, size_bytes, modified_ns = self.identity
        return size_bytes, modified_ns

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file.

        Raises:
            CorruptFileError: They lie outside the file.
        """
        if offset < 0 or length < 0 or offset + length > self.size_bytes:
            raise self._outside(offset, length)
        return self._map[offset : offset + length]

    def view(self, offset: int, length: int) -> memoryview:
        """Return bytes of the file without a copy; the view keeps the map alive."""
        if offset < 0 or length < 0 or offset + length > self.size_bytes:
            raise self._outside(offset, length)
        return self._view[offset : offset + length]

    def join(self, pieces: Sequence[tuple[int, int]]) -> bytes:
        """Return the bytes of ``(offset, length)`` pieces, one after another."""
        return b"".join([self._view[offset : offset + length] for offset, length in pieces])

    def check_size(self) -> None:
        """Raise if the file has become shorter: touching what is gone would end the process."""
        check_mapped(self.path, self.size_bytes, self._map.size())

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Ask the kernel to fetch ``(offset, length)`` ranges together, without waiting."""
        if not _CAN_ADVISE:
            return
        for offset, length in ranges:
            start = offset - offset % mmap.PAGESIZE
            stop = min(offset + length, self.size_bytes, start + _MOST_ADVISED_BYTES)
            if stop > start:
                with suppress(OSError):  # some file systems take no advice
                    self._map.madvise(mmap.MADV_WILLNEED, start, stop - start)

    def _outside(self, offset: int, length: int) -> CorruptFileError:
        return CorruptFileError(
            f"{length} bytes at offset {offset} are needed, "
            f"but the file has {self.size_bytes} bytes."
        )


class _SourceFile(MappedFile):
    """A file whose bytes come from a source. Views are copies: a map could lose its bytes."""

    __slots__ = ("_bytes",)

    def __init__(self, path: Path) -> None:
        self.path = path
        source = source_of(path)
        assert source is not None
        self._bytes = source.open(path, "file")
        self.size_bytes = self._bytes.size_bytes
        self.identity = self._bytes.identity
        if self.size_bytes == 0:
            raise CorruptFileError(f"The file is empty: {str(path)!r}.")

    @property
    def version(self) -> None:
        """None: the source knows when the file has changed."""

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file."""
        if offset < 0 or length < 0 or offset + length > self.size_bytes:
            raise self._outside(offset, length)
        return self._bytes.read(offset, offset + length)

    def view(self, offset: int, length: int) -> memoryview:
        """Return bytes of the file."""
        return memoryview(self.read(offset, length))

    def join(self, pieces: Sequence[tuple[int, int]]) -> bytes:
        """Return the bytes of ``(offset, length)`` pieces, one after another."""
        self.prefetch(pieces)
        return b"".join([self.read(offset, length) for offset, length in pieces])

    def check_size(self) -> None:
        """Do nothing: the version of the file is checked when its bytes are fetched."""

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch ``(offset, length)`` ranges together."""
        self._bytes.fetch([(offset, offset + length) for offset, length in ranges])
