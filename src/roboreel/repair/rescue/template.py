"""What a whole file shows about its siblings: the schema, and the habits of the writer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.io.mapped import MappedFile
from roboreel.parquet.extents.chunks import read_metadata
from roboreel.parquet.extents.pages import CODECS, Page
from roboreel.parquet.extents.thrift import INT, list_items, read_struct, struct_fields
from roboreel.parquet.reader import parquet_errors
from roboreel.repair.rescue.walk import MAX_PAGES, sound_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from roboreel.parquet.extents.thrift import Field


_MAGIC = b"PAR1"
_USUAL_FALLBACK_BYTES = 1024**2
"""The size at which common writers give up a dictionary."""
_BITS = {"BOOLEAN": 1, "INT32": 32, "INT64": 64, "INT96": 96, "FLOAT": 32, "DOUBLE": 64}
# Field numbers of Parquet's FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_ROW_GROUPS, _CHUNKS, _CHUNK_METADATA = 4, 1, 3
_TYPE, _ENCODINGS, _PATH, _CODEC, _NUM_VALUES, _PACKED, _DATA, _DICTIONARY = 1, 2, 3, 4, 5, 7, 9, 11
_REQUIRED = dict.fromkeys([_TYPE, _CODEC, _NUM_VALUES, _PACKED, _DATA], INT)


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """A leaf of the schema, and how the writer stores it."""

    name: str
    physical_type: int
    """Parquet's number of it."""
    path: bytes
    """The names from the top of the schema down, as the footer spells them."""
    value_bits: int | None
    """Bits of a value; None where values differ in size."""
    codec: int
    """Parquet's number of the compression."""
    max_repetition: int
    max_definition: int
    encodings: frozenset[int]
    dictionary: bool | None = None
    """Whether chunks start with a dictionary; None if some do, or if nothing is known."""


@dataclass(frozen=True, slots=True)
class Habits:
    """When a writer starts another page inside of a column chunk, as far as a file shows it."""

    full_bytes: int
    full_values: int
    """A page smaller than both is the last one of its chunk."""
    fallback_bytes: int
    """With a dictionary smaller than this, all values of the chunk are in the dictionary."""

    def is_full(self, page: Page) -> bool:
        """Return whether the chunk may go on after a page."""
        return page.body_bytes >= self.full_bytes or page.num_values >= self.full_values


class _Seen:
    """The sizes of pages of whole chunks."""

    def __init__(self) -> None:
        self.count = 0
        self._last: list[tuple[int, int]] = [(0, 0)]
        self._before: list[tuple[int, int]] = []
        self._fallback_bytes = [_USUAL_FALLBACK_BYTES]

    def add(self, pages: Sequence[Page]) -> None:
        """Note the pages of a chunk."""
        self.count += len(pages)
        sizes = [
            (page.body_bytes, page.num_values)
            for page in pages
            if not page.is_dictionary and not page.has_positions
        ]
        if sizes and pages[0].is_dictionary:
            self._fallback_bytes.append(pages[0].unpacked_bytes)
        self._last += sizes[-1:]
        self._before += sizes[:-1]

    def habits(self) -> Habits:
        """Return what the sizes say."""
        if self._before:
            # Half of what was seen: pages of texts differ in size.
            full = [min(sizes) // 2 for sizes in zip(*self._before, strict=True)]
        else:
            # A page that is larger than every last one may be followed by another.
            full = [max(sizes) + 1 for sizes in zip(*self._last, strict=True)]
        return Habits(full[0], full[1], min(self._fallback_bytes))


@dataclass(frozen=True, slots=True)
class Template:
    """The schema and the habits of a writer, taken from a whole file."""

    path: Path
    columns: tuple[LeafColumn, ...]
    habits: Habits
    fields: Mapping[int, tuple[int, bytes]]
    """The fields of its footer, by number: the Thrift type and the bytes of the value."""


def read_template(path: Path) -> Template:
    """Return the schema and the writer's habits of a whole Parquet file.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: The file is damaged, has no rows, or uses what we do not read.
    """
    file = MappedFile(path)
    try:
        footer = _footer(file)
        fields = struct_fields(footer, 0)
        groups = _list(footer, fields, _ROW_GROUPS)
        chunks = [_chunks_of(footer, group) for group in groups]
        columns = _columns(file, chunks)
        columns, habits = _learn(file, columns, chunks)
    except CorruptFileError as error:
        raise CorruptFileError(
            f"The file cannot serve as a pattern ({str(error).rstrip('.')}): {str(path)!r}."
        ) from error
    parts = {
        number: (field.field_type, footer[field.start : field.stop])
        for number, field in fields.items()
    }
    return Template(path, columns, habits, parts)


def _footer(file: MappedFile) -> bytes:
    size = file.size_bytes
    if size < 12 or file.read(0, 4) != _MAGIC or file.read(size - 4, 4) != _MAGIC:
        raise CorruptFileError("it is not a whole Parquet file")
    length = int.from_bytes(file.read(size - 8, 4), "little")
    return file.read(size - 8 - length, length)


@dataclass(frozen=True, slots=True)
class _ChunkMetadata:
    numbers: Mapping[int, int]
    path: bytes
    encodings: frozenset[int]

    @property
    def start(self) -> int:
        data, dictionary = self.numbers[_DATA], self.numbers.get(_DICTIONARY, 0)
        return min(data, dictionary) if data and dictionary else max(data, dictionary)


def _chunks_of(footer: bytes, group: Field) -> list[_ChunkMetadata]:
    chunks = []
    for item in _list(footer, struct_fields(footer, group.start), _CHUNKS):
        place = struct_fields(footer, item.start).get(_CHUNK_METADATA)
        if place is None:
            raise CorruptFileError("it has no metadata of a column, or is encrypted")
        numbers, _ = read_struct(footer, place.start, {**_REQUIRED, _DICTIONARY: INT})
        parts = struct_fields(footer, place.start)
        if not numbers.keys() >= _REQUIRED.keys() or _PATH not in parts:
            raise CorruptFileError("its metadata of a column is incomplete")
        encodings = (footer[at.start] >> 1 for at in _list(footer, parts, _ENCODINGS))
        names = footer[parts[_PATH].start : parts[_PATH].stop]
        chunks.append(_ChunkMetadata(numbers, names, frozenset(encodings)))
    return chunks


def _list(footer: bytes, fields: Mapping[int, Field], number: int) -> list[Field]:
    if number not in fields:
        raise CorruptFileError("its footer is incomplete")
    return list_items(footer, fields[number])


def _columns(
    file: MappedFile, groups: Sequence[Sequence[_ChunkMetadata]]
) -> tuple[LeafColumn, ...]:
    with parquet_errors(file.path):
        schema = read_metadata(file).schema
    if not groups or any(len(chunks) != len(schema) for chunks in groups):
        raise CorruptFileError("it has no rows, or its row groups lack columns")
    columns = []
    for number, (first, *others) in enumerate(zip(*groups, strict=True)):
        leaf = schema.column(number)
        if any((o.path, o.numbers[_CODEC]) != (first.path, first.numbers[_CODEC]) for o in others):
            raise CorruptFileError(f"its row groups store {leaf.path!r} in different ways")
        if first.numbers[_CODEC] not in CODECS:
            raise CorruptFileError(f"the compression of {leaf.path!r} is not supported")
        columns.append(
            LeafColumn(
                leaf.path,
                first.numbers[_TYPE],
                first.path,
                _value_bits(leaf.physical_type, leaf.length),
                first.numbers[_CODEC],
                leaf.max_repetition_level,
                leaf.max_definition_level,
                encodings=first.encodings.union(*(other.encodings for other in others)),
            )
        )
    return tuple(columns)


def _value_bits(physical_type: str, length: int) -> int | None:
    return 8 * length if physical_type == "FIXED_LEN_BYTE_ARRAY" else _BITS.get(physical_type)


def _learn(
    file: MappedFile,
    columns: tuple[LeafColumn, ...],
    groups: Sequence[Sequence[_ChunkMetadata]],
) -> tuple[tuple[LeafColumn, ...], Habits]:
    """Return the columns with `LeafColumn.dictionary`, and the writer's habits."""
    starts: list[set[bool]] = [set() for _ in columns]
    seen = _Seen()
    for chunks in groups:
        for number, chunk in enumerate(chunks):
            pages = list(_pages_of(file, chunk, MAX_PAGES - seen.count))
            if pages:
                starts[number].add(pages[0].is_dictionary)
                seen.add(pages)
    learned = tuple(
        replace(column, dictionary=next(iter(found)) if len(found) == 1 else None)
        for column, found in zip(columns, starts, strict=True)
    )
    return learned, seen.habits()


def _pages_of(file: MappedFile, chunk: _ChunkMetadata, limit: int) -> Iterator[Page]:
    offset, stop = chunk.start, chunk.start + chunk.numbers[_PACKED]
    if not 0 <= offset <= stop <= file.size_bytes:
        raise CorruptFileError("a column lies outside of it")
    while offset < stop:
        if limit == 0:
            raise CorruptFileError(f"it has more than {MAX_PAGES:,} pages")
        page = sound_page(file, offset, stop)
        yield page
        offset, limit = page.stop, limit - 1
