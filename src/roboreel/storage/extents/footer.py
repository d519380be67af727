"""Where a Parquet file keeps one column: its row groups and column chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError, FeatureNotFoundError
from roboreel.storage.extents.thrift import BINARY, INT, CompactReader, whole_structs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.spans.mapped import MappedFile

__all__ = ["BYTE_ARRAY", "Chunk", "ColumnFooter", "read_footer"]

BYTE_ARRAY = 6
_FIXED_LENGTH_BYTE_ARRAY = 7
_REPEATED = 2

_TAIL_BYTES = 32 * 1024
"""Most footers are shorter, so that one read fetches them whole."""
_MOST_SCHEMA_ELEMENTS = 100_000
_DEEPEST_COLUMN = 32
_MOST_NAMED = 20

# What we keep of Parquet's structs, by the field numbers of its specification.
_SCHEMA_ELEMENT = {1: INT, 3: INT, 4: BINARY, 5: INT}
_CHUNK_METADATA = {4: INT, 5: INT, 6: INT, 7: INT, 9: INT, 11: INT}
_CHUNK = {1: BINARY, 3: _CHUNK_METADATA, 8: {}, 9: BINARY}


@dataclass(frozen=True, slots=True)
class Chunk:
    """The column's part of one row group."""

    first_row: int
    num_rows: int
    start: int
    """Offset of the first page header in the file."""
    stop: int
    codec: int
    """Parquet's number of the compression."""
    unpacked_bytes: int


@dataclass(frozen=True, slots=True)
class ColumnFooter:
    """What the end of a file tells of one column."""

    num_rows: int
    physical_type: int
    max_level: int
    """Definition level of a value that is there; lower levels are nulls."""
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: tuple[bytes, ...]
    physical_type: int
    max_level: int
    repeated: bool


def read_footer(file: MappedFile, column: tuple[str, ...]) -> ColumnFooter:
    """Return where a file keeps one leaf column.

    Args:
        file: A Parquet file.
        column: Names from the top of the schema down to the leaf.

    Raises:
        CorruptFileError: The file is not Parquet, is cut off, or does not add up.
        FeatureNotFoundError: There is no such column.
    """
    footer = _footer_bytes(file)
    with whole_structs():
        position, leaves = _schema_of(footer)
        leaf = _find(leaves, column)
        reader = CompactReader(footer, position)
        num_rows = -1
        chunks: list[dict[int, Any]] = []
        for field, kind in reader.fields(after=2):
            if field == 3:
                num_rows = int(reader.value(kind, INT))
            elif field == 4:
                chunks = _read_chunks(reader, kind, column, num_rows, leaf, len(leaves))
                break
            else:
                reader.skip(kind)
    return ColumnFooter(
        num_rows,
        leaves[leaf].physical_type,
        leaves[leaf].max_level,
        _checked_chunks(chunks, num_rows, file.size_bytes),
    )


def _footer_bytes(file: MappedFile) -> bytes:
    size = file.size_bytes
    tail = file.read(max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES))
    if tail[-4:] == b"PARE":
        raise CorruptFileError("The file is encrypted, which roboreel does not read.")
    if size < 12 or tail[-4:] != b"PAR1":
        raise CorruptFileError(
            "The file does not end as Parquet does: it is cut off, was never finished, "
            "or is something else."
        )
    length = int.from_bytes(tail[-8:-4], "little")
    if length > size - 12:
        raise CorruptFileError(f"The footer would be {length} bytes long, the file is {size}.")
    if length + 8 > len(tail):
        return file.read(size - 8 - length, length)
    return tail[-8 - length : -8]


# --- the schema ---------------------------------------------------------------------------------

_known_schemas: list[tuple[bytes, tuple[_Leaf, ...]]] = []


def _schema_of(footer: bytes) -> tuple[int, tuple[_Leaf, ...]]:
    """Return where the schema ends, and its leaves."""
    # The files of a dataset share their schema, byte by byte, at the start of their footers.
    for prefix, leaves in _known_schemas:
        if footer.startswith(prefix):
            return len(prefix), leaves
    reader = CompactReader(footer)
    for field, kind in reader.fields():
        if field == 2:
            leaves = _read_leaves(reader, kind)
            if reader.position < _TAIL_BYTES:
                _known_schemas[:] = [(footer[: reader.position], leaves), *_known_schemas[:7]]
            return reader.position, leaves
        reader.skip(kind)
    raise CorruptFileError("The footer has no schema.")


def _read_leaves(reader: CompactReader, kind: int) -> tuple[_Leaf, ...]:
    count = reader.items(kind)
    if not 1 <= count <= _MOST_SCHEMA_ELEMENTS:
        raise CorruptFileError(f"The schema has {count} elements.")
    elements = (reader.struct(_SCHEMA_ELEMENT) for _ in range(count))
    leaves: list[_Leaf] = []
    _walk_group(elements, next(elements).get(5, 0), _Leaf((), -1, 0, repeated=False), leaves)
    if next(elements, None) is not None:
        raise CorruptFileError("The schema has elements outside its root.")
    return tuple(leaves)


def _walk_group(
    elements: Iterator[dict[int, Any]], num_children: int, group: _Leaf, leaves: list[_Leaf]
) -> None:
    # The schema is a tree in depth-first order; each group tells how many children follow it.
    if len(group.path) > _DEEPEST_COLUMN:
        raise CorruptFileError("The schema is nested too deep.")
    for _ in range(num_children):
        element = next(elements, None)
        if element is None:
            raise CorruptFileError("The schema ends before its last group.")
        repetition = element.get(3, 0)
        node = _Leaf(
            (*group.path, element.get(4, b"")),
            element.get(1, -1),
            group.max_level + (repetition != 0),
            repeated=group.repeated or repetition == _REPEATED,
        )
        if element.get(5, 0) > 0:
            _walk_group(elements, element[5], node, leaves)
        else:
            leaves.append(node)


def _find(leaves: tuple[_Leaf, ...], column: tuple[str, ...]) -> int:
    wanted = tuple(name.encode() for name in column)
    for position, leaf in enumerate(leaves):
        if leaf.path == wanted:
            if leaf.repeated:
                raise CorruptFileError(
                    f"Column {'.'.join(column)!r} holds lists; one value per row is needed."
                )
            if leaf.physical_type not in (BYTE_ARRAY, _FIXED_LENGTH_BYTE_ARRAY):
                raise CorruptFileError(f"Column {'.'.join(column)!r} holds no byte strings.")
            return position
    there = ", ".join(
        repr(b".".join(leaf.path).decode(errors="replace")) for leaf in leaves[:_MOST_NAMED]
    )
    more = ", …" if len(leaves) > _MOST_NAMED else ""
    raise FeatureNotFoundError(
        f"Column {'.'.join(column)!r} does not exist: the file has {there}{more}."
    )


# --- the row groups -----------------------------------------------------------------------------


def _read_chunks(
    reader: CompactReader,
    kind: int,
    column: tuple[str, ...],
    num_rows: int,
    leaf: int,
    num_leaves: int,
) -> list[dict[int, Any]]:
    count = reader.items(kind)
    named = _chunks_by_name(reader, column, count)
    if named is not None and sum(chunk[3][5] for chunk in named) == num_rows:
        return named
    return [_read_row_group(reader, leaf, num_leaves) for _ in range(count)]


def _chunks_by_name(
    reader: CompactReader, column: tuple[str, ...], count: int
) -> list[dict[int, Any]] | None:
    """Return the chunks that begin with the column's name, if there is one for each row group.

    Walking over all the other columns takes four to nine times as long, which shows when a dataset has
    many files or many row groups.
    """
    names = [name.encode() for name in column]
    if len(names) > 14 or max(map(len, names)) > 127:  # longer ones are spelled otherwise
        return None
    needle = bytes([0x19, len(names) << 4 | 8])  # the third field: a list of byte strings
    needle += b"".join(bytes([len(name)]) + name for name in names)
    if reader.data.count(needle, reader.position) != count:
        return None
    chunks = []
    position = reader.position
    for _ in range(count):
        position = reader.data.index(needle, position) + len(needle)
        found = CompactReader(reader.data, position)
        metadata = found.struct(_CHUNK_METADATA, after=3)
        if 5 not in metadata:
            return None
        chunks.append(found.struct(_CHUNK, after=3) | {3: metadata})
    return chunks


def _read_row_group(reader: CompactReader, leaf: int, num_leaves: int) -> dict[int, Any]:
    chunk: dict[int, Any] = {}
    for field, kind in reader.fields():
        if field == 1:
            count = reader.items(kind)
            if count != num_leaves:
                raise CorruptFileError(f"A row group has {count} columns, the schema {num_leaves}.")
            reader.skip_structs(leaf)
            chunk = reader.struct(_CHUNK)
            reader.skip_structs(count - leaf - 1)
        else:
            reader.skip(kind)
    return chunk


def _checked_chunks(
    found: list[dict[int, Any]], num_rows: int, file_bytes: int
) -> tuple[Chunk, ...]:
    chunks: list[Chunk] = []
    first_row = 0
    for group, fields in enumerate(found):
        chunk = _checked_chunk(fields, group, first_row, file_bytes)
        chunks.append(chunk)
        first_row += chunk.num_rows
    if first_row != num_rows:
        raise CorruptFileError(f"The file has {num_rows} rows, but its row groups {first_row}.")
    return tuple(chunks)


def _checked_chunk(fields: dict[int, Any], group: int, first_row: int, file_bytes: int) -> Chunk:
    if 8 in fields or 9 in fields:
        raise CorruptFileError("The column is encrypted, which roboreel does not read.")
    if fields.get(1):
        raise CorruptFileError("The column lies in another file, which roboreel does not read.")
    metadata = fields.get(3, {})
    if not metadata.keys() >= {4, 5, 6, 7, 9}:
        raise CorruptFileError(f"Row group {group} does not say where the column lies.")
    start = min(metadata[9], metadata.get(11) or metadata[9])
    stop = start + metadata[7]
    if not 0 <= start <= stop <= file_bytes:
        raise CorruptFileError(
            f"Row group {group} would lie from byte {start} to {stop}, "
            f"but the file has {file_bytes} bytes."
        )
    if metadata[5] < 0 or metadata[6] < 0:
        raise CorruptFileError(f"Row group {group} has a negative size.")
    return Chunk(first_row, metadata[5], start, stop, metadata[4], metadata[6])
