"""Random access to the byte strings of a Parquet column."""

from __future__ import annotations

from bisect import bisect_right
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    RemoteError,
    RowNotFoundError,
    TooLargeError,
)
from roboreel.io.budget import Budget, process_budget
from roboreel.io.disk_watch import DiskWatch, usual_row_ns
from roboreel.io.heap import keep_freed_memory
from roboreel.io.mapped import MappedFile, changed_file
from roboreel.parquet.extents.chunks import find_chunks, read_metadata
from roboreel.parquet.extents.index import ChunkIndex, Rung, index_chunk
from roboreel.parquet.extents.page_reader import read_blocks
from roboreel.parquet.extents.pages import UnfamiliarError, unpack
from roboreel.parquet.extents.row_group import WholeColumn, read_whole_column
from roboreel.parquet.reader import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray
    from typing_extensions import Self  # for type checkers alone: typing has it from 3.11 on

    from roboreel.parquet.extents.chunks import ColumnChunks
    from roboreel.parquet.extents.pages import Page


_EXTENT, _JOINED, _NULL, _BLOCK = map(int, (Rung.EXTENT, Rung.JOINED, Rung.NULL, Rung.BLOCK))
_CHECK_EVERY_NS = 10_000_000
"""Asking for the size of the file takes a tenth as long as a read."""


class ByteColumn:
    """A column of byte strings in a Parquet file: any row's bytes, straight from the file.

    A row group is indexed on first use, and the index is held under the budget: 16 to 30 bytes a
    value. Each value is then read in the cheapest way that its page allows: see `Rung`. Row groups
    in encodings that we do not parse are read whole by pyarrow.

    Safe to use from several threads and after a fork. A pickle holds the path; unpickling opens the
    file again, with the process's budget.

    Args:
        path: A Parquet file.
        column: Names from the top of the schema down to the column, such as
            ``("observation.images.front", "bytes")``.
        budget: Holds the indexes and the unpacked pages.
        metadata: Returns the file's metadata as pyarrow parsed it, for callers that have it. By
            default it is read from the file.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: The file is not Parquet, truncated, encrypted or inconsistent.
        FeatureNotFoundError: There is no such column.
    """

    def __init__(
        self,
        path: Path,
        column: tuple[str, ...],
        *,
        budget: Budget,
        metadata: Callable[[], Any] | None = None,
    ) -> None:
        keep_freed_memory()
        self.path = path
        self.column = column
        self._budget = budget
        file = MappedFile(path)
        self._file: MappedFile | None = file
        self._identity = file.identity
        key = (str(path), self._identity, column)
        self._chunks = budget.load(
            ("chunks", key),
            lambda: self._find_chunks(file, metadata),
            lambda chunks: chunks.size_bytes,
            owner="extents",
        )
        self.num_rows = self._chunks.bounds[-1]
        """Rows of the file."""
        self._first_rows = self._chunks.bounds[:-1]
        self._keys = [("extents", key, group) for group in range(len(self._first_rows))]
        self._next_check_ns = 0
        self._disk = DiskWatch(waits=True)  # a file just opened is rarely in memory

    def read(self, rows: Sequence[int] | NDArray[np.int64]) -> list[bytes | None]:
        """Return the bytes of some rows.

        Args:
            rows: Rows of the file, in any order, repeated or not.

        Returns:
            The bytes in the order of ``rows``, owned by the caller; None for a null.

        Raises:
            RowNotFoundError: A row is outside the file.
            CorruptFileError: The file is damaged, or has changed.
            DatasetError: A page or row group does not fit in the budget.
        """
        wanted: list[int] = rows.tolist() if isinstance(rows, np.ndarray) else list(rows)
        values: list[bytes | None] = [None] * len(wanted)
        # In file order, so that a page is unpacked once for all rows in it.
        order = [0] if len(wanted) == 1 else sorted(range(len(wanted)), key=wanted.__getitem__)
        file = self._open()
        now_ns = perf_counter_ns()
        if now_ns > self._next_check_ns:
            file.check_size()
            self._next_check_ns = now_ns + _CHECK_EVERY_NS
        try:
            for position in order[:1]:
                values[position] = self._read_first(file, wanted[position])
            if self._disk.waits and len(order) > 1:
                file.prefetch(self._ranges(wanted))
            for position in order[1:]:
                values[position] = self._read_one(file, wanted[position])
        except (RowNotFoundError, RemoteError):
            raise
        except DatasetError as error:
            raise self._named(error) from error
        return values

    def view(self, rows: range) -> list[bytes | memoryview | None]:
        """Return the bytes of adjacent rows, as views of the file where possible.

        They are prefetched. Use views at once: if the file is truncated, touching one ends the
        process. Raises what `read` does.
        """
        file = self._open()
        file.check_size()
        try:
            file.prefetch(self._stretch(rows))
            return [self._view_one(file, row) for row in rows]
        except (RowNotFoundError, RemoteError):
            raise
        except DatasetError as error:
            raise self._named(error) from error

    def spans(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return the spans of the file that rows need; of a row group without an index, all of it."""
        spans = [(place, place + length) for place, length in self._ranges(list(rows))]
        groups = {bisect_right(self._first_rows, row) - 1 for row in rows}
        for group in groups:
            if self._chunks.chunks is not None and self._budget.get(self._keys[group]) is None:
                chunk = self._chunks.chunks[group]
                spans.append((chunk.start, chunk.stop))
        return spans

    def rungs(self) -> dict[str, int]:
        """Return how many values are on each rung, over the row groups indexed so far."""
        counts: dict[str, int] = {}
        for key in self._keys:
            index = self._budget.get(key)
            if isinstance(index, WholeColumn):
                counts["row group"] = counts.get("row group", 0) + len(index)
            elif isinstance(index, ChunkIndex):
                for rung, count in index.count_rungs().items():
                    counts[rung] = counts.get(rung, 0) + count
        return counts

    def close(self) -> None:
        """Close the file once no thread reads from it; the next read opens it again."""
        self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.path, self.column)

    def __repr__(self) -> str:
        return f"ByteColumn({str(self.path)!r}, {'.'.join(self.column)!r}, rows={self.num_rows})"

    def _find_chunks(self, file: MappedFile, metadata: Callable[[], Any] | None) -> ColumnChunks:
        with parquet_errors(self.path):
            known = read_metadata(file) if metadata is None else metadata()
            return find_chunks(file, known, self.column)

    def _open(self) -> MappedFile:
        file = self._file
        if file is None:
            file = MappedFile(self.path)
            if file.identity != self._identity:
                raise changed_file(self.path)
            self._file = file
        return file

    def _read_first(self, file: MappedFile, row: int) -> bytes | None:
        """Return a value, and note whether it waited for the disk.

        Prefetching a batch makes cold reads 15 times as fast or more (see `MappedFile`), but costs
        2 µs a value, so a batch is prefetched only if its first value was slow.
        """
        if self._disk.waits:
            file.prefetch(self._ranges([row]))
        started_ns = perf_counter_ns()
        value = self._read_one(file, row)
        self._disk.note(perf_counter_ns() - started_ns, usual_row_ns(len(value or b"")))
        return value

    def _read_one(self, file: MappedFile, row: int) -> bytes | None:
        index, inside = self._find(file, row)
        if isinstance(index, WholeColumn):
            return index[inside]
        values = index.values
        rung = values.rung.item(inside)
        length = values.length.item(inside)
        if rung == _EXTENT:
            return file.read(values.place.item(inside), length)
        if rung == _JOINED:
            return file.join(_pieces(index, values.place.item(inside), length))
        if rung == _NULL:
            return None
        return self._unpack(file, index, rung, values.place.item(inside), length)

    def _view_one(self, file: MappedFile, row: int) -> bytes | memoryview | None:
        index, inside = self._find(file, row)
        if isinstance(index, ChunkIndex) and index.values.rung.item(inside) == _EXTENT:
            return file.view(index.values.place.item(inside), index.values.length.item(inside))
        return self._read_one(file, row)

    def _find(self, file: MappedFile, row: int) -> tuple[ChunkIndex | WholeColumn, int]:
        if not 0 <= row < self.num_rows:
            raise RowNotFoundError(
                f"Row {row} does not exist: there are {self.num_rows} rows in {str(self.path)!r}."
            )
        group = bisect_right(self._first_rows, row) - 1
        index = self._budget.get(self._keys[group])
        if index is None:
            index = self._index(file, group)
        return index, row - self._first_rows[group]

    def _index(self, file: MappedFile, group: int) -> ChunkIndex | WholeColumn:
        column = self._chunks
        index: ChunkIndex | WholeColumn
        try:
            if column.chunks is None:
                raise UnfamiliarError
            index = index_chunk(
                file,
                column.chunks[group],
                max_level=column.max_level,
                load_whole=lambda page: self._load_page(file, page),
                limit_bytes=self._budget.limit_bytes,
            )
            owner = "extents"
        except UnfamiliarError:
            index = read_whole_column(self.path, self.column, group, self._budget)
            owner = "row groups"
            num_rows = column.bounds[group + 1] - column.bounds[group]
            if len(index) != num_rows:
                raise CorruptFileError(
                    f"A row group has {num_rows} rows, but {len(index)} values."
                ) from None
        self._budget.put(self._keys[group], index, index.size_bytes, owner=owner)
        return index

    def _unpack(
        self, file: MappedFile, index: ChunkIndex, rung: int, place: int, length: int
    ) -> bytes:
        number = bisect_right(index.page_starts, place) - 1
        page, position = index.pages[number], place - index.page_starts[number]
        blocks = index.page_blocks[number]
        if rung == _BLOCK and blocks is not None:
            value = read_blocks(file, page, blocks, position, length)
            if value is not None:
                return value
        return self._load_page(file, page)[position : position + length]

    def _load_page(self, file: MappedFile, page: Page) -> bytes:
        return self._budget.load(
            ("page", str(self.path), self._identity, page.offset),
            lambda: unpack(file, page, self._budget.limit_bytes),
            len,
            owner="pages",
        )

    def _ranges(self, rows: list[int]) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the file that rows need, as far as the indexes held now tell."""
        for row in rows:
            group = bisect_right(self._first_rows, row) - 1
            index = self._budget.get(self._keys[group]) if group >= 0 else None
            inside = row - self._first_rows[group]
            if not isinstance(index, ChunkIndex) or inside >= len(index.values.rung):
                continue
            place, length = index.values.place.item(inside), index.values.length.item(inside)
            rung = index.values.rung.item(inside)
            if rung == _EXTENT:
                yield place, length
            elif rung == _JOINED:
                yield index.piece_offset.item(place), length

    def _stretch(self, rows: range) -> Iterable[tuple[int, int]]:
        """Return the ranges of the file that adjacent rows need: nearly always one.

        If the row group is not indexed yet, its whole chunk.
        """
        if not rows or not 0 <= rows[0] < self.num_rows:
            return []
        group = bisect_right(self._first_rows, rows[0]) - 1
        index = self._budget.get(self._keys[group])
        if index is None:
            chunks = (self._chunks.chunks or ())[group : group + 1]
            return [(chunk.start, chunk.stop - chunk.start) for chunk in chunks]
        first, last = (row - self._first_rows[group] for row in (rows[0], rows[-1]))
        if not isinstance(index, ChunkIndex) or last >= len(index.values.rung):
            return self._ranges(list(rows))
        values = index.values
        start, stop = values.place.item(first), values.place.item(last) + values.length.item(last)
        needed_bytes = int(values.length[first : last + 1].sum())
        is_extent = values.rung.item(first) == values.rung.item(last) == _EXTENT
        # Nulls and repeated values from a dictionary do not lie one after another.
        if is_extent and needed_bytes <= stop - start <= 2 * needed_bytes:
            return [(start, stop - start)]
        return self._ranges(list(rows))

    def _named(self, error: DatasetError) -> DatasetError:
        """Return an error with the names of the column and the file."""
        kinds = (CorruptFileError, TooLargeError)
        error_type = next((kind for kind in kinds if isinstance(error, kind)), DatasetError)
        return error_type(f"{error} Column {'.'.join(self.column)!r} of {str(self.path)!r}.")


def _pieces(index: ChunkIndex, piece: int, length: int) -> list[tuple[int, int]]:
    pieces = []
    while length > 0:
        piece_length = index.piece_length.item(piece)
        pieces.append((index.piece_offset.item(piece), piece_length))
        length -= piece_length
        piece += 1
    return pieces


def _reopen(path: Path, column: tuple[str, ...]) -> ByteColumn:
    return ByteColumn(path, column, budget=process_budget())
