"""Columns of Parquet files, read in pieces that fit in a limit, or refused with their size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError, TooLargeError
from roboreel.io.mapped import MappedFile
from roboreel.parquet.extents.side_by_side import measure_numbers, measure_pages, read_spans
from roboreel.parquet.extents.sizes import (
    ChunkSize,
    ChunkSpan,
    find_chunks_in,
    measure_chunk,
    measure_little,
    read_span,
)
from roboreel.parquet.parquet_errors import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from roboreel.parquet.narrow import NarrowFooter

__all__ = ["Bound", "BoundedFile"]

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
# Lists have levels and an offset beside each value.
_LEVEL_BYTES = 8
_MOST_ROWS = 65_536
_BUFFER_BYTES = 2**16
# As many row groups are measured side by side.
_MANY_GROUPS = 64


@dataclass(frozen=True, slots=True)
class Bound:
    """The most memory that a column of a row group can take, in bytes."""

    whole: int
    """All values."""
    one: int
    """The values of one row."""
    pages: int
    """What is unpacked at a time, however few rows are read."""
    packed: int
    """What is read of the file for all values."""

    @property
    def at_once(self) -> int:
        """What reading all values in one go takes."""
        return self.whole + self.pages + self.packed


class BoundedFile:
    """An open Parquet file that tells how large a column is before it is read.

    For one thread at a time, except for `batches`.

    Args:
        path: The file, for errors.
        file: It, as pyarrow opened it.
        source: The bytes it was opened from.
        narrow: The footer that pyarrow parsed, if it is not the file's own.
    """

    def __init__(
        self,
        path: Path,
        file: Any,  # noqa: ANN401  # pyarrow is untyped
        source: Any,  # noqa: ANN401
        narrow: NarrowFooter | None = None,
    ) -> None:
        self._path = path
        self._narrow = narrow
        self._file = file
        self._arrow_source = source
        self._source = _Offsets(source)
        self._places: dict[int, list[int]] = {}
        """Where the footer describes each leaf, by row group."""
        self._bounds: dict[tuple[int, str], Bound] = {}
        self._leaves_of: dict[str, list[int]] = {}
        self.names: list[str] = file.schema_arrow.names
        """Names of the columns."""
        # Not `file.schema`: that refers to the footer, which then refers to it, and a footer of
        # megabytes would stay until the collector comes by.
        schema = pq.ParquetSchema(file.metadata)
        self._schema = [schema.column(leaf) for leaf in range(len(schema))]
        self.leaves: list[str] = [column.path for column in self._schema]
        """Paths of the leaves, such as ``"camera.bytes"``."""

    def bound(self, group: int, name: str) -> Bound:
        """Return the most memory that a column of a row group can take.

        Raises:
            CorruptFileError: The footer or a page header is damaged.
        """
        bound = self._bounds.get((group, name))
        if bound is None:
            bound = self._bounds[group, name] = self._measure(group, name)
        return bound

    def _measure(self, group: int, name: str) -> Bound:
        rows = self._file.metadata.row_group(group).num_rows
        whole = one = pages = packed = 0
        for leaf in self._leaves(name):
            size, column = self._size(group, leaf), self._schema[leaf]
            count, width = max(size.num_values, rows), _width(column)
            if width:
                each = width + _LEVEL_BYTES * bool(column.max_repetition_level)
                # Lists of a feature are equally long.
                total, single = count * each, each * -(-count // max(rows, 1))
            else:
                single = size.page_bytes + _LEVEL_BYTES
                total = count * single if size.expands else size.total_bytes + _LEVEL_BYTES * count
            whole, one, pages = whole + total, one + single, pages + 2 * size.page_bytes
            packed += size.packed_bytes
        return Bound(whole, one, pages, packed)

    def read(self, groups: Sequence[int], names: Sequence[str], limit_bytes: int) -> Any:  # noqa: ANN401
        """Return columns of some row groups as a table.

        Raises:
            CorruptFileError: The file is damaged.
            TooLargeError: They take more than the limit.
        """
        fits = self._certainly_fits(groups, names, limit_bytes)
        bounds = [] if fits else [self.bound(group, name) for group in groups for name in names]
        with parquet_errors(self._path):
            if fits or sum(bound.at_once for bound in bounds) <= limit_bytes:
                return self._read_groups(groups, names)
            held, batches = 0, []
            for batch in self.batches(groups, names, self._rows(names, bounds, limit_bytes)):
                batches.append(batch)
                held += batch.nbytes
                if held > limit_bytes:
                    raise self._too_large(f"take more than {held:,} bytes", names, limit_bytes)
            if not batches:
                return self._read_groups([], names)
            return pa.Table.from_batches(batches)

    def _read_groups(self, groups: Sequence[int], names: Sequence[str]) -> Any:  # noqa: ANN401
        if self._file.num_row_groups:
            return self._file.read_row_groups(groups, columns=list(names), use_threads=False)
        # pyarrow 18 fails on a file without row groups, even if none is asked for.
        return self._file.schema_arrow.empty_table().select(list(names))

    def _certainly_fits(
        self, groups: Sequence[int], names: Sequence[str], limit_bytes: int
    ) -> bool:
        """Whether all row groups of some columns fit in a limit, measured side by side.

        Only for many row groups: one by one would take longer than reading them.
        """
        metadata, total = self._file.metadata, 0
        if len(groups) < max(_MANY_GROUPS, metadata.num_row_groups):
            return False
        for leaf in (leaf for name in names for leaf in self._leaves(name)):
            at_once = self._leaf_at_once(leaf, metadata.num_rows)
            if at_once is None:
                return False
            total += at_once
        return total <= limit_bytes

    def _leaf_at_once(self, leaf: int, num_rows: int) -> int | None:
        """Return the most that a leaf of all row groups takes; None if it must be looked at."""
        column = self._schema[leaf]
        spans = None if self._narrow is None else self._narrow.spans.get(column.path)
        if spans is None:
            spans = read_spans(self._footer, self._all_places(leaf), self._source.size_bytes)
        if spans is None:
            return None
        if column.max_repetition_level or not (width := _width(column)):
            return measure_pages(MappedFile(self._path), spans)
        return measure_numbers(spans, num_rows, width)

    def pieces(self, group: int, name: str, num_rows: int) -> Iterator[Any]:
        """Yield a column of a row group in parts of some rows, the last one shorter.

        Raises:
            CorruptFileError: The file is damaged, or has fewer rows than it says.
        """
        left = self._file.metadata.row_group(group).num_rows
        with parquet_errors(self._path):
            for batch in self.batches([group], [name], num_rows):
                if len(batch) != min(num_rows, left):
                    break
                left -= len(batch)
                yield batch.column(0)
        if left:
            raise CorruptFileError(
                f"Row group {group} lacks {left:,} rows of {name!r}: {str(self._path)!r}."
            )

    def piece_rows(self, group: int, name: str, limit_bytes: int) -> int:
        """Return how many rows of a column fit in a limit; all of them, if all do.

        Raises:
            TooLargeError: Not even one does.
        """
        rows = int(self._file.metadata.row_group(group).num_rows)
        bound = self.bound(group, name)
        if bound.at_once <= limit_bytes:
            return max(rows, 1)
        return min(rows, self._fitting(bound, [name], limit_bytes))

    def batches(self, groups: Sequence[int], names: Sequence[str], num_rows: int) -> Iterator[Any]:
        """Yield columns of some row groups as record batches of some rows, page by page.

        Thread-safe: each pass has a reader of its own. It takes a page of the file at a time, where
        pyarrow would take a whole column of a row group.
        """
        reader = pq.ParquetFile(
            self._arrow_source, metadata=self._file.metadata, buffer_size=_BUFFER_BYTES
        )
        try:
            yield from reader.iter_batches(
                num_rows, row_groups=list(groups), columns=list(names), use_threads=False
            )
        finally:
            # Arrow's allocator keeps what was freed, which nobody would count.
            pa.default_memory_pool().release_unused()

    def _rows(self, names: Sequence[str], bounds: Sequence[Bound], limit_bytes: int) -> int:
        """Return how many rows of several columns to read at a time."""
        # Columns are read side by side, row groups one after another.
        one = sum(sorted((bound.one for bound in bounds), reverse=True)[: len(names)])
        pages = sum(sorted((bound.pages for bound in bounds), reverse=True)[: len(names)])
        return min(_MOST_ROWS, self._fitting(Bound(0, one, pages, 0), names, limit_bytes))

    def _fitting(self, bound: Bound, names: Sequence[str], limit_bytes: int) -> int:
        """Return how many rows fit in a limit."""
        # A page or a value larger than a part's share may still fit in what the parts leave free.
        most = 4 * limit_bytes
        if bound.one + bound.pages > most:
            what = f"may take {bound.one + bound.pages:,} bytes in one row"
            raise self._too_large(what, names, most)
        return max(1, (limit_bytes - min(bound.pages, limit_bytes)) // max(bound.one, 1))

    def _too_large(self, what: str, names: Sequence[str], limit_bytes: int) -> TooLargeError:
        listed = ", ".join(map(repr, names[:4])) + (", …" if len(names) > 4 else "")
        return TooLargeError(
            f"The values of {listed} {what}, and {limit_bytes:,} bytes of the memory budget are "
            f"left for them. Open the dataset with a larger memory=, if the file is sound: "
            f"{str(self._path)!r}."
        )

    def _leaves(self, name: str) -> list[int]:
        leaves = self._leaves_of.get(name)
        if leaves is None:
            leaves = self._leaves_of[name] = [
                leaf
                for leaf, path in enumerate(self.leaves)
                if path == name or path.startswith(f"{name}.")
            ]
        return leaves

    def _size(self, group: int, leaf: int) -> ChunkSize:
        column = self._schema[leaf]
        try:
            span = self._span(group, leaf)
            one_number = not column.max_repetition_level and _width(column)
            little = measure_little(span) if one_number else None
            return little or measure_chunk(self._source, span)
        except CorruptFileError as error:
            raise CorruptFileError(
                f"{str(error).rstrip('.')}, in row group {group} of {str(self._path)!r}."
            ) from error

    def _span(self, group: int, leaf: int) -> ChunkSpan:
        places = self._all_places(leaf)
        # One at a time: a file may have thousands of row groups, of which few are read.
        return read_span(self._footer, places[group], self._source.size_bytes)

    def _all_places(self, leaf: int) -> list[int]:
        places = self._places.get(leaf)
        if places is None:
            names, count = self._names(self.leaves[leaf]), self._file.metadata.num_row_groups
            places = self._places[leaf] = find_chunks_in(self._footer, names, count)
        return places

    def _names(self, path: str) -> list[str]:
        """Return the names of a leaf's path; those of features have dots themselves."""
        top = max(
            (n for n in self.names if path == n or path.startswith(f"{n}.")), key=len, default=""
        )
        rest = path[len(top) + 1 :] if top else path
        return [top, *rest.split(".")] if top and rest else [top or path]

    @cached_property
    def _footer(self) -> bytes:
        if self._narrow is not None:
            return self._narrow.data
        size = self._source.size_bytes
        length = int.from_bytes(self._source.read(size - 8, 4), "little")
        return self._source.read(max(0, size - 8 - length), length)


class _Offsets:
    """Bytes of an Arrow file by offset."""

    def __init__(self, source: Any) -> None:  # noqa: ANN401  # pyarrow is untyped
        self._source = source
        self.size_bytes: int = source.size()

    def read(self, offset: int, length: int, /) -> bytes:
        data: bytes = self._source.read_at(length, offset)
        if len(data) < length:
            raise CorruptFileError(f"The file ends before byte {offset + length:,}.")
        return data


def _width(column: Any) -> int:  # noqa: ANN401  # pyarrow is untyped
    """Return the bytes of a value; 0 for byte strings."""
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return int(column.length)
    return _WIDTHS.get(column.physical_type, 0)
