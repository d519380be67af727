"""Packets, read from a file in decoding order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from roboreel.errors import CorruptFileError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from roboreel.video.packet_table import PacketTable

__all__ = ["FilePackets", "PacketReader"]

# Neighbouring packets are read together, up to so many bytes at a time.
_BLOCK_BYTES = 2 * 1024**2


class PacketReader(Protocol):
    """Reads the packets of one file; a context manager, used by one thread."""

    def read(self, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
        """Yield the packets ``start … stop - 1`` with their bytes, which are valid until the next."""
        ...


class FilePackets:
    """Reads packets at the places that a packet table names."""

    def __init__(self, path: Path, table: PacketTable) -> None:
        self._path = path
        self._table = table
        # Opened for each piece of work: 10 µs beside milliseconds of decoding, and no handle is
        # ever left open, shared with a forked process, or stale.
        try:
            self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except FileNotFoundError as error:
            raise MissingFileError(f"There is no video file {str(path)!r}.") from error

    def __enter__(self) -> FilePackets:  # noqa: PYI034  # Self is in Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)

    def read(self, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
        """Yield the packets ``start … stop - 1`` with their bytes, which are valid until the next.

        Raises:
            CorruptFileError: The file has become shorter than its packet table says.
        """
        offsets = self._table.offset[start:stop].tolist()
        sizes = self._table.size[start:stop].tolist()
        for first, last in _spans(offsets, sizes):
            base = offsets[first]
            block = self._read_bytes(base, offsets[last - 1] + sizes[last - 1])
            for position in range(first, last):
                begin = offsets[position] - base
                yield start + position, block[begin : begin + sizes[position]]

    def _read_bytes(self, start: int, stop: int) -> memoryview:
        data = _read_at(self._handle, start, stop - start)
        while len(data) < stop - start:  # A read may return less than was asked for.
            more = _read_at(self._handle, start + len(data), stop - start - len(data))
            if not more:
                raise CorruptFileError(
                    f"The video ends at byte {start + len(data):,}, inside an image: "
                    f"{str(self._path)!r}."
                )
            data += more
        return memoryview(data)


def _read_at(handle: int, start: int, count: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(handle, count, start)
    os.lseek(handle, start, os.SEEK_SET)  # Windows. The handle is this thread's own.
    return os.read(handle, count)


def _spans(offsets: list[int], sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield spans of packets that follow one another in the file, within the block size."""
    first = 0
    for position in range(1, len(offsets)):
        follows = offsets[position] == offsets[position - 1] + sizes[position - 1]
        end = offsets[position] + sizes[position]
        if not follows or end - offsets[first] > _BLOCK_BYTES:
            yield first, position
            first = position
    if offsets:
        yield first, len(offsets)
