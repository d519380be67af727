"""Where a Parquet file keeps one column: a chunk in every row group."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError, FeatureNotFoundError
from roboreel.parquet.extents.thrift import INT, read_struct
from roboreel.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from roboreel.io.mapped import MappedFile

__all__ = ["Chunk", "ColumnChunks", "find_chunks", "read_metadata", "spelled_path"]

_MOST_NAMED = 20
# What we read of Parquet's ColumnMetaData, by the field numbers of its specification.
_PATH, _CODEC, _NUM_VALUES, _PACKED_BYTES, _DATA_PAGE, _DICTIONARY_PAGE = 3, 4, 5, 7, 9, 11
_REQUIRED = dict.fromkeys([_CODEC, _NUM_VALUES, _PACKED_BYTES, _DATA_PAGE], INT)
_WANTED = {**_REQUIRED, _DICTIONARY_PAGE: INT}


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


def read_metadata(file: MappedFile) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return a file's metadata as pyarrow parses it."""
    return pq.read_metadata(pa.BufferReader(file.view(0, file.size_bytes)))


def find_chunks(file: MappedFile, metadata: Any, column: tuple[str, ...]) -> ColumnChunks:  # noqa: ANN401
    """Return where a file keeps one leaf column.

    The schema and the row counts are pyarrow's. The chunks are looked up in the footer's bytes:
    asked for a chunk of a damaged footer, pyarrow ends the process instead of raising.

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
        chunks = tuple(_chunks_after(needle, footer, sizes, file.size_bytes))
    except CorruptFileError as error:
        raise CorruptFileError(
            f"The footer is damaged ({str(error).rstrip('.')}): {str(file.path)!r}."
        ) from error
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


def _chunks_after(
    needle: bytes, footer: bytes, sizes: list[int], file_bytes: int
) -> Iterator[Chunk]:
    # Walking through the chunks of all columns instead takes ten times as long.
    position = 0
    for group, num_rows in enumerate(sizes):
        position = footer.index(needle, position) + len(needle)
        fields, _ = read_struct(footer, position, _WANTED, after=_PATH)
        if not fields.keys() >= _REQUIRED.keys():
            raise CorruptFileError(f"row group {group} does not say where the column lies")
        if fields[_NUM_VALUES] != num_rows:
            raise CorruptFileError(
                f"row group {group} has {num_rows} rows, but {fields[_NUM_VALUES]} values"
            )
        start = min(fields[_DATA_PAGE], fields.get(_DICTIONARY_PAGE) or fields[_DATA_PAGE])
        stop = start + fields[_PACKED_BYTES]
        if not 0 <= start <= stop <= file_bytes:
            raise CorruptFileError(
                f"row group {group} has the column at bytes {start} to {stop} of {file_bytes}"
            )
        yield Chunk(num_rows, start, stop, fields[_CODEC])
