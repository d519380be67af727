"""The footer of a Parquet file, made from what its pages say and from the footer of a sibling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.parquet.extents.pages import RLE
from roboreel.parquet.extents.thrift import LIST
from roboreel.parquet.thrift_writer import i16, i32, i64, list_of, struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roboreel.parquet.extents.pages import Page
    from roboreel.parquet.thrift_writer import Value
    from roboreel.repair.rescue.template import LeafColumn, Template


_NUM_ROWS, _ROW_GROUPS = 3, 4
_COPIED = (1, 2, 5, 6, 7)
"""Version, schema, metadata of the user, name of the writer and order of values."""
_MOST_ORDINAL = 2**15


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """Where a column chunk lies, and what its pages add up to."""

    start: int
    stop: int
    unpacked_bytes: int
    """Headers included, as footers count."""
    num_values: int
    encodings: tuple[int, ...]
    data_offset: int
    """Offset of the first data page; 0 if there is none."""
    dictionary_offset: int | None

    @classmethod
    def of_pages(cls, pages: Sequence[Page], start: int) -> FoundChunk:
        """Return the chunk that consists of some pages, and starts at an offset."""
        data = [page for page in pages if not page.is_dictionary]
        unpacked = sum(page.body - page.start + page.body_bytes for page in pages)
        return cls(
            start,
            pages[-1].stop if pages else start,
            unpacked,
            sum(page.num_values for page in data),
            # Levels are always RLE.
            tuple(sorted({RLE, *(page.encoding for page in pages)})),
            data[0].start if data else 0,
            pages[0].start if pages and pages[0].is_dictionary else None,
        )


@dataclass(frozen=True, slots=True)
class FoundRowGroup:
    """A whole row group."""

    num_rows: int
    chunks: tuple[FoundChunk, ...]

    @property
    def start(self) -> int:
        """Offset of its first page."""
        return self.chunks[0].start

    @property
    def stop(self) -> int:
        """Offset right after its last page."""
        return self.chunks[-1].stop


def encode_footer(template: Template, row_groups: Sequence[FoundRowGroup]) -> bytes:
    """Return the bytes that complete a file, from the end of its pages to the end of the file.

    Statistics are left out: readers do without them.
    """
    groups = [
        _row_group(number, group, template.columns) for number, group in enumerate(row_groups)
    ]
    fields = {number: template.fields[number] for number in _COPIED if number in template.fields}
    fields[_NUM_ROWS] = i64(sum(group.num_rows for group in row_groups))
    fields[_ROW_GROUPS] = list_of(groups) if groups else (LIST, b"\x0c")
    _, footer = struct(fields)
    return footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _row_group(number: int, group: FoundRowGroup, columns: Sequence[LeafColumn]) -> Value:
    chunks = [_chunk(chunk, column) for chunk, column in zip(group.chunks, columns, strict=True)]
    fields = {
        1: list_of(chunks),
        2: i64(sum(chunk.unpacked_bytes for chunk in group.chunks)),
        3: i64(group.num_rows),
        5: i64(group.start),
        6: i64(group.stop - group.start),
    }
    if number < _MOST_ORDINAL:
        fields[7] = i16(number)
    return struct(fields)


def _chunk(chunk: FoundChunk, column: LeafColumn) -> Value:
    metadata = {
        1: i32(column.physical_type),
        2: list_of([i32(encoding) for encoding in chunk.encodings]),
        3: (LIST, column.path),
        4: i32(column.codec),
        5: i64(chunk.num_values),
        6: i64(chunk.unpacked_bytes),
        7: i64(chunk.stop - chunk.start),
        9: i64(chunk.data_offset),
    }
    if chunk.dictionary_offset is not None:
        metadata[11] = i64(chunk.dictionary_offset)
    return struct({2: i64(0), 3: struct(metadata)})
