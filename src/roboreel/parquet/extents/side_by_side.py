"""Chunks of a column in thousands of row groups, measured side by side.

A file with a row group for every ten rows describes each column thousands of times, always in the
same form. One NumPy step for all of them takes less than one Python step for each. Structs of any
other form are left to `read_struct`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.distinct import distinct
from roboreel.parquet.extents.cursor import NEXT_I32, NEXT_I64, SECOND_NEXT_I64, Cursor, one_of
from roboreel.parquet.extents.pages import HIGHEST_RATIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.io.mapped import MappedFile

__all__ = ["ChunkSpans", "measure_numbers", "measure_pages", "read_spans"]

# What may follow the last field that is read: the end, statistics, encodings, a Bloom filter.
_AFTER_DATA_PAGE = (0x00, 0x3C, 0x49, 0x56)
_AFTER_DICTIONARY = (0x00, 0x1C, 0x29, 0x36)
# Headers of pages: what follows the sizes of a data page and of a dictionary.
_DATA_HEADER, _DICTIONARY_HEADER = 0x2C, 0x4C
_DATA, _DICTIONARY = 0, 2
# Whether a dictionary is sorted: true, false, or not said.
_SORTED = (0x11, 0x12)
_LEVEL_BYTES = 8
"""Beside each value of a list: levels and an offset."""
_LITTLE_BYTES = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSpans:
    """Where a column's parts of some row groups lie in the file, each ``(G,)``."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    num_values: NDArray[np.int64]
    codec: NDArray[np.int64]
    end: NDArray[np.int64]
    """Where the fields that were read end in the footer."""


def read_spans(
    footer: bytes | memoryview, places: Sequence[int] | NDArray[np.int64], file_bytes: int
) -> ChunkSpans | None:
    """Return where columns' parts of some row groups lie, from their descriptions in a footer.

    Args:
        footer: The footer as it is in the file, or all of the file.
        places: Where the path of the column ends in each description.
        file_bytes: How large the file is.

    Returns:
        None if a description has another form, or says what cannot be.
    """
    cursor = Cursor(np.frombuffer(footer, np.uint8), np.asarray(places, np.int64))
    codec = cursor.number(NEXT_I32)
    num_values = cursor.number(NEXT_I64)
    cursor.number(NEXT_I64)
    packed = cursor.number(NEXT_I64)
    data_page = cursor.number(SECOND_NEXT_I64)
    has_dictionary = cursor.headers() == SECOND_NEXT_I64
    dictionary = cursor.number(SECOND_NEXT_I64, where=has_dictionary)
    follows = cursor.headers()
    known = np.where(
        has_dictionary, one_of(follows, *_AFTER_DICTIONARY), one_of(follows, *_AFTER_DATA_PAGE)
    )
    start = np.where(
        has_dictionary & (dictionary > 0), np.minimum(dictionary, data_page), data_page
    )
    stop = start + packed
    sound = (start >= 0) & (stop >= start) & (stop <= file_bytes) & (num_values >= 0)
    if not (cursor.sound & known & sound).all():
        return None
    return ChunkSpans(start, stop, num_values, codec, cursor.at)


def measure_numbers(spans: ChunkSpans, num_rows: int, width: int) -> int | None:
    """Return the most that one number per row takes while row groups are read one by one.

    Without a look at the pages: rows say how many numbers there are, and most compressions how
    large pages can be at all.

    Args:
        spans: The column's parts.
        num_rows: Rows of all row groups.
        width: Bytes of a number.

    Returns:
        Bytes; None if pages may be large.
    """
    packed = spans.stop - spans.start
    ratios = {int(codec): HIGHEST_RATIO.get(int(codec)) for codec in distinct(spans.codec)}
    known = {codec: ratio for codec, ratio in ratios.items() if ratio is not None}
    if len(known) < len(ratios):
        return None
    highest = max(known.values(), default=1)
    largest = int(packed.max(initial=0)) * highest
    if largest > _LITTLE_BYTES:
        return None
    return (int(spans.num_values.sum()) + num_rows) * width + int(packed.sum()) + 2 * largest


def measure_pages(file: MappedFile, spans: ChunkSpans) -> int | None:
    """Return the most that byte strings, or values in lists, take while they are read.

    Args:
        file: The Parquet file.
        spans: The column's parts.

    Returns:
        Bytes; None unless every part is one page that holds all its values, perhaps after a
        dictionary.
    """
    data = np.frombuffer(file.view(0, file.size_bytes), np.uint8)
    cursor = Cursor(data, spans.start)
    kind, dictionary_bytes, packed = (cursor.number(NEXT_I32) for _ in range(3))
    has_dictionary = kind == _DICTIONARY
    _skip_dictionary(cursor, has_dictionary)
    cursor.at = np.where(has_dictionary, cursor.at + packed, spans.start)
    kind, page_bytes, _ = (cursor.number(NEXT_I32) for _ in range(3))
    cursor.expect(_DATA_HEADER)
    num_values = cursor.number(NEXT_I32)
    sound = (kind == _DATA) & (num_values == spans.num_values) & (cursor.at <= spans.stop)
    sound &= (page_bytes >= 0) & (dictionary_bytes >= 0) & (packed >= 0)
    if not (cursor.sound & sound).all():
        return None
    # With a dictionary or prefixes, each value may be as long as all that is stored.
    longest = np.maximum(page_bytes, dictionary_bytes)
    values = num_values.astype(np.float64) * (longest + _LEVEL_BYTES)
    return int(values.sum()) + int((spans.stop - spans.start).sum()) + 4 * int(longest.max())


def _skip_dictionary(cursor: Cursor, where: NDArray[np.bool_]) -> None:
    """Step over the rest of a dictionary's header, after its sizes."""
    cursor.expect(_DICTIONARY_HEADER, where)
    for _ in range(2):  # Its values, and their encoding.
        cursor.number(NEXT_I32, where)
    cursor.at += where & one_of(cursor.headers(), *_SORTED)
    cursor.expect(0, where)
    cursor.expect(0, where)
