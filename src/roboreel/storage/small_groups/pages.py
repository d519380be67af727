"""The pages of many column chunks that have one data page each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from roboreel.storage.extents.cursor import NEXT_I32, Cursor, varints
from roboreel.storage.extents.pages import UNCOMPRESSED
from roboreel.storage.extents.side_by_side import skip_dictionary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.storage.extents.side_by_side import ChunkSpans

__all__ = ["SinglePages", "read_single_pages"]

_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY = 0, 2, 8
# How page headers begin: their kind, then the header of the next field, all as little-endian words.
_START = np.uint64(0xFFFFFF)
_DATA_START, _DICTIONARY_START = np.uint64(0x150015), np.uint64(0x150415)
_KIND_BYTES = 2
_DATA_HEADER = 0x2C
# Three encodings of a data page: any below 64 of the values, and RLE of both kinds of levels.
_ENCODINGS, _RLE_LEVELS = np.uint64(0xFFFFFFFF81FF), np.uint64(0x061506150015)
_ENCODINGS_BYTES = 6
_MOST_BYTES = 2**31
# Thrift's types of the fields of statistics: true and false, whole numbers, bytes.
_TRUE, _FALSE, _I32, _I64, _BINARY = 1, 2, 5, 6, 8
_STATISTICS_HEADER = 0x1C
_MOST_FIELDS = 16


@dataclass(frozen=True, slots=True, eq=False)
class SinglePages:
    """The data page of each chunk, and its dictionary if there is one, all ``(N,)``."""

    sound: NDArray[np.bool_]
    """Whether this is all that the chunk holds."""
    encoding: NDArray[np.int64]
    start: NDArray[np.int64]
    """Where the packed bytes of the data page begin in the file; they end with the chunk."""
    unpacked_bytes: NDArray[np.int64]
    dictionary_start: NDArray[np.int64]
    dictionary_stop: NDArray[np.int64]
    dictionary_bytes: NDArray[np.int64]
    """Of the unpacked dictionary."""
    dictionary_count: NDArray[np.int64]
    """Values in the dictionary; 0 without one."""

    @property
    def in_dictionary(self) -> NDArray[np.bool_]:
        """Whether the data page holds positions in the dictionary."""
        coded: NDArray[np.bool_] = self.encoding != _PLAIN
        return coded

    def take(self, places: NDArray[np.int64]) -> SinglePages:
        """Return the pages of some of the chunks."""
        return SinglePages(*(getattr(self, field.name)[places] for field in fields(self)))


def _after_statistics(cursor: Cursor, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where some headers of data pages end, from where their statistics may begin.

    Returns:
        -1 where a field is not one of statistics.
    """
    at, left = cursor.at[chosen], np.arange(len(chosen))
    has = cursor.byte_at(at) == _STATISTICS_HEADER
    at += has
    left = left[has]
    for _ in range(_MOST_FIELDS):
        header = cursor.byte_at(at[left]).astype(np.int64)
        at[left] += 1
        left, header = left[header > 0], header[header > 0]
        if not len(left):
            break
        kind = header & 15
        value, size = varints(cursor.word_at(at[left]))
        is_bytes = kind == _BINARY
        is_varint = is_bytes | (kind == _I32) | (kind == _I64)
        known = (header > 15) & (is_varint & (size > 0) | (kind == _TRUE) | (kind == _FALSE))
        at[left] += np.where(is_varint, size, 0) + np.where(is_bytes, value, 0)
        at[left[~known]] = -1
        left = left[known & (at[left] < cursor.num_bytes)]
    at[left] = -1
    sound = (at >= 0) & (cursor.byte_at(at) == 0) & (cursor.byte_at(at + 1) == 0)
    return np.where(sound, at + 2, -1)


def read_single_pages(data: NDArray[np.uint8], spans: ChunkSpans) -> SinglePages:
    """Return the pages of some chunks.

    Args:
        data: The file.
        spans: The chunks, of any columns.
    """
    cursor = Cursor(data, spans.start)
    has_dictionary = cursor.word() & _START == _DICTIONARY_START
    cursor.at += _KIND_BYTES
    dictionary_bytes, dictionary_packed = cursor.number(NEXT_I32), cursor.number(NEXT_I32)
    count, dictionary_encoding = skip_dictionary(cursor, has_dictionary)
    dictionary_start = cursor.at
    dictionary_stop = dictionary_start + dictionary_packed
    inside = (dictionary_packed >= 0) & (dictionary_stop < spans.stop)
    cursor.at = np.where(has_dictionary & inside, dictionary_stop, spans.start)
    is_data = cursor.word() & _START == _DATA_START
    cursor.at += _KIND_BYTES
    unpacked_bytes, packed = cursor.number(NEXT_I32), cursor.number(NEXT_I32)
    cursor.expect(_DATA_HEADER)
    num_values = cursor.number(NEXT_I32)
    rest = cursor.word()
    encoding = (rest >> np.uint64(8) & np.uint64(255)).view(np.int64) >> 1
    cursor.at += _ENCODINGS_BYTES
    # Statistics may follow; then both structs end.
    start = spans.stop - packed
    ends = (data[np.maximum(start, 2) - 1] == 0) & (data[np.maximum(start, 2) - 2] == 0)
    # Packed bytes tell whether they are whole; of others, every byte before them is accounted for.
    bare = np.flatnonzero(spans.codec == UNCOMPRESSED)
    ends[bare] &= _after_statistics(cursor, bare) == start[bare]
    in_dictionary = (encoding == _PLAIN_DICTIONARY) | (encoding == _RLE_DICTIONARY)
    is_plain = (dictionary_encoding == _PLAIN) | (dictionary_encoding == _PLAIN_DICTIONARY)
    in_dictionary &= has_dictionary & is_plain
    sound = cursor.sound & inside | ~has_dictionary & cursor.sound
    sound &= is_data & (num_values == spans.num_values) & (packed > 0)
    sound &= (cursor.at + 2 <= start) & ends & ((encoding == _PLAIN) | in_dictionary)
    sound &= rest & _ENCODINGS == _RLE_LEVELS
    for size in (unpacked_bytes, dictionary_bytes, count):
        sound &= (size >= 0) & (size < _MOST_BYTES)
    return SinglePages(
        sound,
        encoding,
        start,
        unpacked_bytes,
        dictionary_start,
        np.where(has_dictionary, dictionary_stop, dictionary_start),
        np.where(has_dictionary, dictionary_bytes, 0),
        np.where(has_dictionary, count, 0),
    )
