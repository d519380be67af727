"""The encoded bytes of samples, read from a file in decoding order."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np

from roboreel.errors import CorruptFileError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from roboreel.video.samples import SampleTable

__all__ = ["FilePackets", "PacketReader"]

# Neighbouring samples are read together, up to so many bytes at a time.
_BLOCK_BYTES = 2 * 1024**2


class PacketReader(Protocol):
    """Reads the packets of one file; a context manager, used by one thread."""

    def read(self, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
        """Yield the samples ``start … stop - 1`` with their bytes, which are valid until the next."""
        ...


class FilePackets:
    """Reads packets at the places that a sample table names."""

    def __init__(self, path: Path, table: SampleTable) -> None:
        self._path = path
        self._table = table
        # Opened for each piece of work: 10 µs beside milliseconds of decoding, and no handle is
        # ever left open, shared with a forked process, or stale.
        try:
            self._file: BinaryIO = path.open("rb", buffering=0)
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
        self._file.close()

    def read(self, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
        """Yield the samples ``start … stop - 1`` with their bytes, which are valid until the next.

        Raises:
            CorruptFileError: The file has become shorter than its sample table says.
        """
        offsets, sizes = self._table.offset[start:stop], self._table.size[start:stop]
        stops = offsets + sizes
        # A new block begins where a sample does not follow its predecessor, or at the limit.
        breaks = np.flatnonzero(offsets[1:] != stops[:-1]) + 1
        for first, last in _spans(breaks.tolist(), (stops - offsets[:1]).tolist()):
            block = self._read_bytes(int(offsets[first]), int(stops[last - 1]))
            base = int(offsets[first])
            for position in range(first, last):
                begin = int(offsets[position]) - base
                yield start + position, block[begin : begin + int(sizes[position])]

    def _read_bytes(self, start: int, stop: int) -> memoryview:
        self._file.seek(start)
        data = self._file.read(stop - start)
        while len(data) < stop - start:  # A raw read may return less than was asked for.
            more = self._file.read(stop - start - len(data))
            if not more:
                raise CorruptFileError(
                    f"The video ends at byte {start + len(data):,}, inside an image: "
                    f"{str(self._path)!r}."
                )
            data += more
        return memoryview(data)


def _spans(breaks: list[int], ends: list[int]) -> Iterator[tuple[int, int]]:
    """Yield spans of samples to read at once: between breaks, and within the block size."""
    first, begin = 0, 0
    pending = iter([*breaks, len(ends)])
    border = next(pending)
    for position, end in enumerate(ends):
        if position == border or (position > first and end - begin > _BLOCK_BYTES):
            yield first, position
            if position == border:
                border = next(pending)
            first, begin = position, ends[position - 1]
    if first < len(ends):
        yield first, len(ends)
