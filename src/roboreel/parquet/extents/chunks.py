"""Where a Parquet file keeps one leaf column: a chunk in every row group.

The chunks are looked up in the footer's bytes: asked for a chunk of a damaged footer, pyarrow ends
the process instead of raising.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError, FeatureNotFoundError
from roboreel.parquet.extents.cursor import NEXT_I32, NEXT_I64, SECOND_NEXT_I64, Cursor, one_of
from roboreel.parquet.extents.thrift import INT, read_struct
from roboreel.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.io.mapped import MappedFile


_MOST_NAMED = 20
# What we read of Parquet's ColumnMetaData, by the field numbers of its specification.
_PATH, _CODEC, _NUM_VALUES, _UNPACKED, _PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 3, 4, 5, 6, 7, 9, 11
_REQUIRED = dict.fromkeys((_CODEC, _NUM_VALUES, _UNPACKED, _PACKED, _DATA_PAGE), INT)
_WANTED = {**_REQUIRED, _DICTIONARY_PAGE: INT}
# What may follow the last field that is read: the end, statistics, encodings, a Bloom filter.
_AFTER_DATA_PAGE = (0x00, 0x3C, 0x49, 0x56)
_AFTER_DICTIONARY = (0x00, 0x1C, 0x29, 0x36)
# From so many row groups on, one NumPy step for all takes less than one Python step for each.
_MANY = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """The column's part of one row group."""

    num_rows: int
    start: int
    """Offset of the first page header in the file."""
    stop: int
    codec: int
    """Parquet's number of the compression."""


@dataclass(frozen=True, slots=True)
class ColumnChunks:
    """All chunks of one column of byte strings."""

    max_level: int
    """Definition level of a value that is not null."""
    bounds: tuple[int, ...]
    """Row group ``g`` holds the rows ``[bounds[g], bounds[g + 1])`` of the file."""
    chunks: tuple[Chunk, ...] | None
    """One per row group; None if only pyarrow can read the column."""

    @property
    def size_bytes(self) -> int:
        """Memory that this takes, roughly."""
        return 200 + 200 * len(self.bounds)


class ChunkSpans(NamedTuple):
    """A leaf column's parts of some row groups, each array ``(G,)``."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    num_values: NDArray[np.int64]
    """Nulls and empty lists included."""
    unpacked: NDArray[np.int64]
    """Bytes of all its pages, unpacked."""
    codec: NDArray[np.int64]
    """Parquet's number of the compression."""


def read_metadata(file: MappedFile) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return a file's metadata as pyarrow parses it."""
    return pq.read_metadata(pa.BufferReader(file.view(0, file.size_bytes)))


def find_chunks(file: MappedFile, metadata: Any, column: tuple[str, ...]) -> ColumnChunks:  # noqa: ANN401
    """Return where a file keeps one leaf column of byte strings.

    Args:
        file: A Parquet file.
        metadata: Its metadata, as pyarrow parsed it.
        column: Names from the top of the schema down to the leaf.

    Raises:
        CorruptFileError: The column does not hold one byte string per row, or the footer is
            damaged.
        FeatureNotFoundError: There is no such column.
    """
    leaf = _find_leaf(file.path, pq.ParquetSchema(metadata), column)
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    bounds = tuple(accumulate(sizes, initial=0))
    if min(sizes, default=0) < 0 or bounds[-1] != metadata.num_rows:
        raise CorruptFileError(
            f"The file has {metadata.num_rows} rows, but its row groups have {bounds[-1]}: "
            f"{str(file.path)!r}."
        )
    footer, needle = _footer(file), spelled_path(column)
    # A text in the statistics may look like the name.
    is_clear = footer.count(needle) == len(sizes)
    if leaf.physical_type != "BYTE_ARRAY" or not is_clear:
        return ColumnChunks(leaf.max_definition_level, bounds, None)
    try:
        spans = find_spans(footer, column, len(sizes), file.size_bytes)
    except CorruptFileError as error:
        raise CorruptFileError(
            f"The footer is damaged ({str(error).rstrip('.')}): {str(file.path)!r}."
        ) from error
    if spans.num_values.tolist() != sizes:
        raise CorruptFileError(
            f"The footer is damaged (a column has not one value per row): {str(file.path)!r}."
        )
    arrays = (array.tolist() for array in (spans.start, spans.stop, spans.codec))
    chunks = tuple(Chunk(*values) for values in zip(sizes, *arrays, strict=True))
    return ColumnChunks(leaf.max_definition_level, bounds, chunks)


def _find_leaf(path: Path, schema: Any, column: tuple[str, ...]) -> Any:  # noqa: ANN401
    name = ".".join(column)
    leaves = {leaf.path: leaf for leaf in (schema.column(i) for i in range(len(schema)))}
    if name not in leaves:
        more = ", …" if len(leaves) > _MOST_NAMED else ""
        raise FeatureNotFoundError(
            f"Column {name!r} does not exist: there are "
            f"{', '.join(map(repr, list(leaves)[:_MOST_NAMED]))}{more}, in {str(path)!r}."
        )
    leaf = leaves[name]
    if leaf.max_repetition_level:
        raise CorruptFileError(
            f"Column {name!r} holds lists, where one value per row is needed: {str(path)!r}."
        )
    if leaf.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        raise CorruptFileError(
            f"Column {name!r} holds {leaf.physical_type}, not byte strings: {str(path)!r}."
        )
    return leaf


def _footer(file: MappedFile) -> bytes:
    length = int.from_bytes(file.read(file.size_bytes - 8, 4), "little")
    return file.read(file.size_bytes - 8 - length, length)


def spelled_path(column: Sequence[str]) -> bytes:
    """Return a column's path as the footer has it in the metadata of each chunk."""
    names = [name.encode(errors="surrogatepass") for name in column]
    # The third field of ColumnMetaData: a list of byte strings.
    length = (
        bytes([len(names) << 4 | 8]) if len(names) < 15 else b"\xf8" + encode_varint(len(names))
    )
    return b"\x19" + length + b"".join(encode_varint(len(name)) + name for name in names)


def find_spans(footer: bytes, column: Sequence[str], count: int, file_bytes: int) -> ChunkSpans:
    """Return the parts of a leaf column.

    Args:
        footer: The footer, as it is in the file.
        column: Names from the top of the schema down to the leaf.
        count: How many row groups there are.
        file_bytes: How large the file is.

    Raises:
        CorruptFileError: There are more or fewer parts, or they cannot lie where they should.
    """
    # Walking through the chunks of all columns instead takes ten times as long.
    needle, position, places = spelled_path(column), 0, []
    while (found := footer.find(needle, position)) >= 0:
        position = found + len(needle)
        places.append(position)
    if len(places) == count >= _MANY and (known := read_spans(footer, places, file_bytes)):
        return known[0]
    # A text in the statistics may look like the name.
    chunks = [chunk for chunk in (_chunk_at(footer, place) for place in places) if chunk]
    if len(chunks) != count:
        raise CorruptFileError("The footer does not say where a column lies")
    for start, stop, num_values, unpacked, _ in chunks:
        if not 0 <= start <= stop <= file_bytes or num_values < 0 or unpacked < 0:
            raise CorruptFileError(
                f"The footer has a column at bytes {start:,} to {stop:,} of {file_bytes:,}"
            )
    return ChunkSpans(*np.array(chunks, np.int64).reshape(-1, 5).T)


def _chunk_at(footer: bytes, place: int) -> tuple[int, ...] | None:
    """Return what `ChunkSpans` holds of a part that is described here; None if none is."""
    try:
        fields, _ = read_struct(footer, place, _WANTED, after=_PATH)
    except CorruptFileError:
        return None
    if not fields.keys() >= _REQUIRED.keys():
        return None
    start = min(fields[_DATA_PAGE], fields.get(_DICTIONARY_PAGE) or fields[_DATA_PAGE])
    stop = start + fields[_PACKED]
    return start, stop, fields[_NUM_VALUES], fields[_UNPACKED], fields[_CODEC]


def read_spans(
    footer: bytes | memoryview, places: Sequence[int] | NDArray[np.int64], file_bytes: int
) -> tuple[ChunkSpans, NDArray[np.int64]] | None:
    """Return a column's parts of many row groups, and where their fields end in the footer.

    A file with a row group for every ten rows describes each column thousands of times, always in
    the same form: all are read side by side.

    Args:
        footer: The footer, as it is in the file.
        places: Where the path of the column ends in each description.
        file_bytes: How large the file is.

    Returns:
        None if a description has another form, or says what cannot be.
    """
    cursor = Cursor(np.frombuffer(footer, np.uint8), np.asarray(places, np.int64))
    codec = cursor.number(NEXT_I32)
    num_values, unpacked, packed = (cursor.number(NEXT_I64) for _ in range(3))
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
    possible = (start >= 0) & (stop >= start) & (stop <= file_bytes)
    possible &= (num_values >= 0) & (unpacked >= 0)
    if not (cursor.sound & known & possible).all():
        return None
    return ChunkSpans(start, stop, num_values, unpacked, codec), cursor.at
