"""Thousands of small blocks of bytes, unpacked in one go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from roboreel.storage.extents.cursor import varints, words_of
from roboreel.storage.extents.pages import SNAPPY, UNCOMPRESSED
from roboreel.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.spans.mapped import MappedFile

__all__ = [
    "Blocks",
    "first_alike",
    "join_blocks",
    "room_for",
    "skip_preambles",
    "unpack_blocks",
    "unpack_each",
]

# Stands between blocks, so that one that is longer or shorter than it says is noticed. A Snappy
# literal: its tag, and eight bytes that no file can know.
_BORDER = os.urandom(8)
_LITERAL = b"\x1c" + _BORDER
_MOST_ALIKE_BYTES = 32
# Blocks that are unpacked one by one begin at multiples of this, as values of any type have to.
_ALIGNMENT = 8
_SNAPPY = pa.Codec("snappy")


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of bytes; at least eight bytes follow the last one."""

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    """Where each block begins, ``(N,)``."""
    stop: NDArray[np.int64]

    def part(self, places: slice | NDArray[np.bool_] | NDArray[np.int64]) -> Blocks:
        """Return some of the blocks."""
        return Blocks(self.data, self.start[places], self.stop[places])


def unpack_blocks(
    file: MappedFile,
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
    unpacked_bytes: NDArray[np.int64],
    codec: int,
) -> Blocks | None:
    """Return blocks of a file, unpacked.

    Args:
        file: The file.
        start: Where each block begins, ``(N,)``.
        stop: Where it ends.
        unpacked_bytes: How long it is unpacked; the caller has checked that the sum is reasonable.
        codec: Parquet's number of the compression.

    Returns:
        None if a block is not as long as it says, or has a compression that is unpacked elsewhere.
    """
    begin = skip_preambles(file, start, stop, unpacked_bytes, codec)
    if begin is None:
        return None
    return join_blocks(file.pieces(begin.tolist(), stop.tolist()), unpacked_bytes, codec)


def first_alike(
    data: NDArray[np.uint8], start: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the first of the adjacent blocks that are equal to each block, ``(N,)``.

    Only short blocks are compared: pages of row groups often hold the same few bytes.
    """
    words, size = words_of(data), stop - start
    alike = np.zeros(len(start), np.bool_)
    alike[1:] = (size[1:] == size[:-1]) & (size[1:] <= _MOST_ALIKE_BYTES)
    for offset in range(0, _MOST_ALIKE_BYTES, 8):
        word = words[np.minimum(start + offset, len(words) - 1)]
        unused = np.clip(offset + 8 - size, 0, 8)  # Bytes after the end of the block.
        word <<= (unused * 8).astype(np.uint64) % np.uint64(64)
        word[unused == 8] = 0
        alike[1:] &= word[1:] == word[:-1]
    return np.maximum.accumulate(np.where(alike, 0, np.arange(len(start))))


def skip_preambles(
    file: MappedFile,
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
    unpacked_bytes: NDArray[np.int64],
    codec: int,
) -> NDArray[np.int64] | None:
    """Return where each block begins, after the length that Snappy puts first.

    Returns:
        None if a length is another, or the compression is unpacked elsewhere.
    """
    if codec == UNCOMPRESSED:
        return start if ((stop - start) == unpacked_bytes).all() else None
    if codec != SNAPPY:
        return None
    words = words_of(np.frombuffer(file.view(0, file.size_bytes), np.uint8))
    length, size = varints(words[np.minimum(start, len(words) - 1)])
    if not ((size > 0) & (length == unpacked_bytes) & (start + size <= stop)).all():
        return None
    return start + size


def join_blocks(
    pieces: list[bytes], unpacked_bytes: NDArray[np.int64], codec: int
) -> Blocks | None:
    """Return blocks, unpacked as one: a copy of Snappy refers back by a distance.

    Args:
        pieces: The blocks, without a length before them.
        unpacked_bytes: How long each of them is unpacked.
        codec: Parquet's number of the compression.

    Returns:
        None if a block is not as long as it says.
    """
    stops = np.cumsum(unpacked_bytes + len(_BORDER)) - len(_BORDER)
    if codec == UNCOMPRESSED:
        data = np.frombuffer(_BORDER.join([*pieces, b""]), np.uint8)
        return Blocks(data, stops - unpacked_bytes, stops)
    total = int(stops[-1]) + len(_BORDER) if len(stops) else 0
    joined = encode_varint(total) + _LITERAL.join([*pieces, b""])
    try:
        # As bytes: what Arrow's allocator keeps when it is freed, nobody counts.
        unpacked = pa.decompress(joined, total, "snappy", asbytes=True)
    except (pa.ArrowException, OSError):
        return None
    data = np.frombuffer(unpacked, np.uint8)
    borders = words_of(data)[stops]
    if not (borders == int.from_bytes(_BORDER, "little")).all():
        return None
    return Blocks(data, stops - unpacked_bytes, stops)


def room_for(unpacked_bytes: NDArray[np.int64]) -> int:
    """Return how much memory `unpack_each` needs."""
    return int(_aligned(unpacked_bytes).sum()) + _ALIGNMENT


def unpack_each(
    pieces: Sequence[memoryview],
    unpacked_bytes: NDArray[np.int64],
    codec: int,
    out: NDArray[np.uint8],
) -> Blocks | None:
    """Return blocks, each unpacked into its part of some memory.

    For blocks of many kilobytes: they are not copied together first, as `join_blocks` does.

    Args:
        pieces: The blocks; those of Snappy with their length before them, which `skip_preambles`
            has compared.
        unpacked_bytes: How long each of them is unpacked.
        codec: Parquet's number of the compression.
        out: The memory, as much as `room_for` says.

    Returns:
        None if a block is damaged.
    """
    stops = np.cumsum(_aligned(unpacked_bytes))
    start = stops - _aligned(unpacked_bytes)
    stop = start + unpacked_bytes
    view = out.data
    try:
        for piece, begin, end in zip(pieces, start.tolist(), stop.tolist(), strict=True):
            packed = codec == SNAPPY
            view[begin:end] = (
                _SNAPPY.decompress(piece, end - begin, asbytes=True) if packed else piece
            )
    except (pa.ArrowException, OSError, ValueError):
        return None
    return Blocks(out, start, stop)


def _aligned(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return -(-sizes // _ALIGNMENT) * _ALIGNMENT
