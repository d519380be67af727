"""The raw blocks of a Zstandard frame, which hold bytes verbatim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.storage.extents.literals import LiteralMap

if TYPE_CHECKING:
    from roboreel.spans.mapped import MappedFile

__all__ = ["scan_zstd"]

_MAGIC = b"\x28\xb5\x2f\xfd"
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2
_LARGEST_BLOCK_BYTES = 128 * 1024
_PROBE_BYTES = 32


def scan_zstd(file: MappedFile, start: int, stop: int, unpacked: bytes) -> LiteralMap:
    """Return where the file holds parts of a page verbatim.

    A frame does not say how long its compressed blocks are when unpacked. So raw blocks are looked
    up in the unpacked page, and compared with it byte by byte.

    Args:
        file: The file that holds the frame.
        start: Offset of the frame.
        stop: Offset of its end.
        unpacked: The whole page, unpacked.

    Raises:
        CorruptFileError: The bytes are not a Zstandard frame.
    """
    offset = start + _header_bytes(file.read(start, min(18, stop - start)))
    runs: list[int] = []
    lowest = highest = 0  # the next block starts between these positions in the unpacked page
    last = False
    while not last:
        if offset + 3 > stop:
            raise CorruptFileError("A Zstandard page ends before its last block.")
        header = int.from_bytes(file.read(offset, 3), "little")
        last, block_type, size = bool(header & 1), header >> 1 & 3, header >> 3
        offset += 3
        if block_type == _RAW:
            block = file.read(offset, size)
            position = _find(unpacked, block, lowest, highest)
            if position is not None and size:
                runs += (position, offset, size)
                lowest, highest = position, position
        if block_type == _COMPRESSED:
            highest += _LARGEST_BLOCK_BYTES
        else:
            lowest, highest = lowest + size, highest + size
        offset += 1 if block_type == _REPEATED else size
    return LiteralMap.of_runs(runs)


def _header_bytes(header: bytes) -> int:
    if header[:4] != _MAGIC or len(header) < 5:
        raise CorruptFileError("A Zstandard page does not start with a frame header.")
    flags = header[4]
    single = flags >> 5 & 1
    size_bytes = (single, 2, 4, 8)[flags >> 6]
    return 5 + (1 - single) + (0, 1, 2, 4)[flags & 3] + size_bytes


def _find(unpacked: bytes, block: bytes, lowest: int, highest: int) -> int | None:
    position = unpacked.find(block[:_PROBE_BYTES], lowest, highest + _PROBE_BYTES)
    if position < 0 or unpacked[position : position + len(block)] != block:
        return None
    return position
