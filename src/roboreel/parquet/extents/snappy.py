"""Where the bytes of a Snappy stream lie, from its tags, without unpacking it."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.literals import BLOCK_BYTES, LiteralMap
from roboreel.varint import encode_varint

if TYPE_CHECKING:
    from roboreel.io.mapped import MappedFile


_FIRST_WINDOW_BYTES = 512
_LAST_WINDOW_BYTES = 1 << 20
_LONGEST_TAG_BYTES = 5


def _tag_tables() -> tuple[tuple[int, ...], tuple[int, ...]]:
    packed, unpacked = [], []
    for tag in range(256):
        tag_type, upper = tag & 3, tag >> 2
        if tag_type == 0:  # a literal; 60 and more say how many bytes of length follow
            packed.append(upper + 2 if upper < 60 else 0)
            unpacked.append(upper + 1)
        else:  # a copy, with its distance in 1, 2 or 4 bytes
            packed.append((2, 3, 5)[tag_type - 1])
            unpacked.append((upper & 7) + 4 if tag_type == 1 else upper + 1)
    return tuple(packed), tuple(unpacked)


_PACKED_BYTES, _UNPACKED_BYTES = _tag_tables()


def scan_snappy(
    file: MappedFile, start: int, stop: int, unpacked_bytes: int, *, most_tags: int
) -> LiteralMap | None:
    """Return the literals and blocks of a stream.

    Literals of fewer than 61 bytes are left out: they occur in compressible data, next to copies.

    Args:
        file: The file that holds the stream.
        start: Offset of the stream.
        stop: Offset of its end.
        unpacked_bytes: Length of the unpacked bytes.
        most_tags: Give up after this many tags.

    Returns:
        None if there are more tags.

    Raises:
        CorruptFileError: The tags do not add up to the unpacked bytes.
    """
    expected = encode_varint(unpacked_bytes)
    if file.read(start, min(len(expected), stop - start)) != expected:
        raise CorruptFileError(
            f"A Snappy page does not start with its unpacked length, {unpacked_bytes} bytes."
        )
    scan = _scan_tags(file, start + len(expected), stop, unpacked_bytes, most_tags)
    if scan is None:
        return None
    runs, blocks = scan
    return LiteralMap.of_runs(runs, None if blocks is None else np.array(blocks, np.int64))


def _scan_tags(
    file: MappedFile, start: int, stop: int, unpacked_bytes: int, most_tags: int
) -> tuple[array[int], list[int] | None] | None:
    # One loop without calls: raw pixels have a tag every few bytes. Even so, 16 s per GB.
    packed_sizes, unpacked_sizes = _PACKED_BYTES, _UNPACKED_BYTES
    runs = array("q")
    blocks: list[int] | None = [start]
    boundary = BLOCK_BYTES
    window, origin, limit, window_bytes = b"", start, -1, _FIRST_WINDOW_BYTES
    position = unpacked = 0  # of the next tag: in the window, in the unpacked bytes
    tags_left = most_tags
    while unpacked < unpacked_bytes:
        if position > limit:
            # Literals are skipped, so that only tags are fetched; dense tags widen the window.
            near = position < len(window) + _FIRST_WINDOW_BYTES
            window_bytes = (
                min(window_bytes * 2, _LAST_WINDOW_BYTES) if near else _FIRST_WINDOW_BYTES
            )
            origin += position
            window = _fetch(file, origin, stop, window_bytes)
            position, limit = 0, len(window) - _LONGEST_TAG_BYTES
        tag = window[position]
        size = packed_sizes[tag]
        if size:
            position += size
            unpacked += unpacked_sizes[tag]
        else:
            extra = (tag >> 2) - 59
            length = int.from_bytes(window[position + 1 : position + 1 + extra], "little") + 1
            position += 1 + extra
            runs.extend((unpacked, origin + position, length))
            position += length
            unpacked += length
        if unpacked >= boundary and blocks is not None:
            if unpacked == boundary:
                blocks.append(origin + position)
                boundary += BLOCK_BYTES
            else:
                blocks = None
        tags_left -= 1
        if tags_left < 0:
            return None
    if unpacked != unpacked_bytes or origin + position != stop:
        raise CorruptFileError("The tags of a Snappy page do not add up to its length.")
    if blocks is not None and unpacked_bytes % BLOCK_BYTES:
        blocks.append(stop)
    return runs, blocks


def _fetch(file: MappedFile, offset: int, stop: int, size: int) -> bytes:
    if offset >= stop:
        raise CorruptFileError("The tags of a Snappy page end before its last byte.")
    if offset + size < stop:
        return file.read(offset, size)
    # Padded, since the last tag may be short. Zeros read as tags would break the final sum.
    return file.read(offset, stop - offset) + b"\0" * _LONGEST_TAG_BYTES
