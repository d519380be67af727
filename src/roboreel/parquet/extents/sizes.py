"""How much memory a column of a row group may take, from its page headers: nothing is unpacked.

Neither the footer's sizes nor the size of the file tell. A dictionary, runs and prefixes let a few
bytes become gigabytes, so values are counted where pyarrow counts them, in the headers of the pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.chunks import spelled_path
from roboreel.parquet.extents.pages import HIGHEST_RATIO, PAGE_HEADER, read_header
from roboreel.parquet.extents.thrift import INT, read_struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roboreel.parquet.extents.pages import ByteSource

__all__ = [
    "ChunkSize",
    "ChunkSpan",
    "find_chunks_in",
    "measure_chunk",
    "measure_little",
    "read_span",
]

# Fields of Parquet's ColumnMetaData, by the numbers of its specification.
_PATH, _CODEC, _NUM_VALUES, _PACKED_BYTES, _DATA_PAGE, _DICTIONARY_PAGE = 3, 4, 5, 7, 9, 11
_WANTED = dict.fromkeys((_CODEC, _NUM_VALUES, _PACKED_BYTES, _DATA_PAGE, _DICTIONARY_PAGE), INT)
_LITTLE_BYTES = 2**16
_NEEDED = {_CODEC, _NUM_VALUES, _PACKED_BYTES, _DATA_PAGE}
# Encodings by which a value can be longer than what the page stores of it.
_PLAIN, _DELTA_LENGTH = 0, 6


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """Where a column's part of one row group lies in the file."""

    start: int
    stop: int
    num_values: int
    """As the footer counts them."""
    codec: int
    """Parquet's number of the compression."""


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """What a column's part of one row group unpacks to."""

    num_values: int
    """Nulls and empty lists included."""
    page_bytes: int
    """The largest page."""
    total_bytes: int
    """All pages together."""
    packed_bytes: int
    """As they are in the file."""
    expands: bool
    """Whether byte strings may be longer, all together, than the pages are."""


def find_chunks_in(footer: bytes, column: Sequence[str], count: int) -> list[int]:
    """Return where a footer describes a leaf column, for each row group: see `read_span`.

    Not from pyarrow: asked for a chunk of a damaged footer, it ends the process.

    Args:
        footer: The footer, as it is in the file.
        column: Names from the top of the schema down to the leaf.
        count: How many row groups there are.

    Raises:
        CorruptFileError: There are more or fewer descriptions.
    """
    needle, position, places = spelled_path(column), 0, []
    while (found := footer.find(needle, position)) >= 0:
        position = found + len(needle)
        places.append(position)
    if len(places) > count:  # A text in the statistics may look like the name.
        places = [place for place in places if _is_description(footer, place)]
    if len(places) != count:
        raise CorruptFileError("The footer does not say where a column lies")
    return places


def _is_description(footer: bytes, place: int) -> bool:
    try:
        return read_struct(footer, place, _WANTED, after=_PATH)[0].keys() >= _NEEDED
    except CorruptFileError:
        return False


def read_span(footer: bytes, place: int, file_bytes: int) -> ChunkSpan:
    """Return where a column's part of a row group lies, from its description in a footer.

    Raises:
        CorruptFileError: The footer is damaged.
    """
    fields, _ = read_struct(footer, place, _WANTED, after=_PATH)
    if not fields.keys() >= _NEEDED:
        raise CorruptFileError("The footer does not say where a column lies")
    start = min(fields[_DATA_PAGE], fields.get(_DICTIONARY_PAGE) or fields[_DATA_PAGE])
    stop = start + fields[_PACKED_BYTES]
    if not 0 <= start <= stop <= file_bytes or fields[_NUM_VALUES] < 0:
        raise CorruptFileError(
            f"The footer has a column at bytes {start:,} to {stop:,} of {file_bytes:,}"
        )
    return ChunkSpan(start, stop, fields[_NUM_VALUES], fields[_CODEC])


def measure_little(span: ChunkSpan) -> ChunkSize | None:
    """Return what one number per row unpacks to at most, without a look at its pages.

    That is enough if it is little: rows say how many numbers there are, and most compressions how
    large the pages can be at all. None if it may be much.
    """
    packed = span.stop - span.start
    unpacked = packed * HIGHEST_RATIO.get(span.codec, _LITTLE_BYTES + 1)
    if unpacked > _LITTLE_BYTES:
        return None
    return ChunkSize(span.num_values, unpacked, unpacked, packed, expands=False)


def measure_chunk(file: ByteSource, span: ChunkSpan) -> ChunkSize:
    """Return what a column's part of a row group unpacks to, from the headers of its pages.

    Raises:
        CorruptFileError: A header is damaged.
    """
    offset, num_values, largest, total, expands = span.start, 0, 0, 0, False
    while num_values < span.num_values and offset < span.stop:
        header, body = read_header(file, offset, span.stop, PAGE_HEADER)
        packed_bytes, unpacked_bytes = header.get(3, -1), header.get(2, -1)
        offset = body + packed_bytes
        if packed_bytes < 0 or unpacked_bytes < 0 or offset > span.stop:
            raise CorruptFileError(
                f"A page at offset {body} does not fit in its chunk: {packed_bytes} bytes, "
                f"{unpacked_bytes} unpacked."
            )
        largest, total = max(largest, unpacked_bytes), total + unpacked_bytes
        data = header.get(5) or header.get(8)
        if data is not None:
            num_values += max(data.get(1, 0), 0)
            encoding = data.get(2) if 5 in header else data.get(4)
            expands |= encoding not in (_PLAIN, _DELTA_LENGTH)
    packed = span.stop - span.start
    return ChunkSize(max(num_values, span.num_values), largest, total, packed, expands)
