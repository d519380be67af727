"""Packets of a video file, read in decoding order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from roboreel.io.reading import SpanReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from roboreel.video.packet_table import PacketTable

# Contiguous packets are read together, up to this many bytes at a time.
_BLOCK_BYTES = 2 * 1024**2


class PacketReader(Protocol):
    """Reads the packets of one file. A context manager, for one thread."""

    def read(self, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
        """Yield number and bytes of the packets ``[start, stop)``, each valid until the next."""
        ...


class FilePackets:
    """Reads packets at the offsets in a packet table."""

    def __init__(self, path: Path, table: PacketTable) -> None:
        self._table = table
        # Opened for each piece of work: 10 µs beside milliseconds of decoding, and no handle is
        # ever left open, shared with a forked process, or stale.
        self._file = SpanReader(path, "video file")

    def __enter__(self) -> FilePackets:  # noqa: PYI034  # Self is in Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.__exit__(kind, error, trace)

    def read(self, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
        """Yield number and bytes of the packets ``[start, stop)``, each valid until the next.

        Raises:
            CorruptFileError: The file is shorter than its packet table says.
        """
        offsets = self._table.offset[start:stop].tolist()
        sizes = self._table.size[start:stop].tolist()
        for first, last in _spans(offsets, sizes):
            base = offsets[first]
            block = memoryview(self._file.read(base, offsets[last - 1] + sizes[last - 1]))
            for position in range(first, last):
                begin = offsets[position] - base
                yield start + position, block[begin : begin + sizes[position]]


def blocks(file: SpanReader, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes ``[start, stop)`` of a file, a block at a time."""
    for at in range(start, stop, _BLOCK_BYTES):
        yield file.read(at, min(at + _BLOCK_BYTES, stop))


def _spans(offsets: list[int], sizes: list[int]) -> list[tuple[int, int]]:
    """Return spans of packets that are contiguous in the file, within the block size."""
    spans: list[tuple[int, int]] = []
    first, limit, expected = 0, 0, -1
    for position, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        end = offset + size
        if offset != expected or end > limit:
            if position:
                spans.append((first, position))
            first, limit = position, offset + _BLOCK_BYTES
        expected = end
    if offsets:
        spans.append((first, len(offsets)))
    return spans
