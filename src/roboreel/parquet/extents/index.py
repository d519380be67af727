"""The index of a column chunk: where each value lies, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError, DatasetError
from roboreel.parquet.extents.levels import decode_hybrid
from roboreel.parquet.extents.page_reader import PageReader
from roboreel.parquet.extents.pages import read_pages
from roboreel.parquet.extents.plain import walk_lengths

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from roboreel.io.mapped import MappedFile
    from roboreel.parquet.extents.chunks import Chunk
    from roboreel.parquet.extents.literals import LiteralMap
    from roboreel.parquet.extents.pages import Page


_MOST_PIECES = 64
"""A value in more pieces than this is unpacked block by block."""
_BYTES_PER_VALUE = 13


class Rung(IntEnum):
    """How a value is read, from the cheapest to the most expensive way."""

    NULL = 0
    EXTENT = 1
    """One range of the file."""
    JOINED = 2
    """A few ranges of the file, joined."""
    BLOCK = 3
    """The 64 KB Snappy blocks that hold it are unpacked."""
    PAGE = 4
    """Its page is unpacked, and held under the budget."""


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Where some values lie."""

    rung: NDArray[np.uint8]
    place: NDArray[np.int64]
    """Extent: offset in the file. Joined: number of its first piece. Block and page: position in
    the unpacked pages of the chunk, laid end to end."""
    length: NDArray[np.int32]

    def take(self, positions: NDArray[np.int64]) -> Values:
        """Return the values at these positions."""
        return Values(self.rung[positions], self.place[positions], self.length[positions])


@dataclass(frozen=True, slots=True, eq=False)
class ChunkIndex:
    """Where each value of one column chunk lies."""

    values: Values
    piece_offset: NDArray[np.int64]
    """Ranges of the file that joined values consist of."""
    piece_length: NDArray[np.int32]
    pages: tuple[Page, ...]
    """The pages of the values on the rungs block and page."""
    page_starts: tuple[int, ...]
    page_blocks: tuple[NDArray[np.int64] | None, ...]

    @property
    def size_bytes(self) -> int:
        """Memory that the index takes, roughly."""
        blocks = sum(blocks.nbytes for blocks in self.page_blocks if blocks is not None)
        pieces = self.piece_offset.nbytes + self.piece_length.nbytes
        return len(self.values.rung) * _BYTES_PER_VALUE + pieces + blocks + 300 * len(self.pages)

    def count_rungs(self) -> dict[str, int]:
        """Return how many values are on each rung."""
        counts = np.bincount(self.values.rung, minlength=len(Rung)).tolist()
        return {rung.name.lower(): count for rung, count in zip(Rung, counts, strict=True) if count}


def index_chunk(
    file: MappedFile,
    chunk: Chunk,
    *,
    max_level: int,
    load_whole: Callable[[Page], bytes],
    limit_bytes: int,
) -> ChunkIndex:
    """Return where each value of a chunk lies.

    Args:
        file: The Parquet file.
        chunk: The chunk to index.
        max_level: Definition level of a value that is not null.
        load_whole: Returns a page unpacked.
        limit_bytes: The most that the index may take.

    Raises:
        CorruptFileError: The chunk is damaged.
        DatasetError: The index does not fit in the memory budget.
        UnfamiliarError: The chunk is written in a way that we leave to pyarrow.
    """
    if chunk.num_rows * _BYTES_PER_VALUE > limit_bytes:
        raise DatasetError(
            f"A row group has {chunk.num_rows} rows, too many for the memory budget of "
            f"{limit_bytes} bytes. Open the dataset with a larger memory=."
        )
    indexer = _Indexer(file, chunk.num_rows, max_level, load_whole)
    for page in read_pages(file, chunk):
        indexer.add(page)
    return indexer.finish()


class _Indexer:
    """Collects the values of one chunk, page by page."""

    def __init__(
        self,
        file: MappedFile,
        num_rows: int,
        max_level: int,
        load_whole: Callable[[Page], bytes],
    ) -> None:
        self._file = file
        self._max_level = max_level
        self._load_whole = load_whole
        self._values = Values(
            np.zeros(num_rows, np.uint8), np.zeros(num_rows, np.int64), np.zeros(num_rows, np.int32)
        )
        self._filled = 0
        self._dictionary: Values | None = None
        self._pieces: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._num_pieces = 0
        self._pages: list[Page] = []
        self._page_starts: list[int] = []
        self._page_blocks: list[NDArray[np.int64] | None] = []
        self._next_page_start = 0

    def add(self, page: Page) -> None:
        reader = PageReader(self._file, page, self._load_whole)
        if page.is_dictionary:
            if self._dictionary is not None:
                raise CorruptFileError("A chunk has two dictionaries.")
            self._dictionary = self._locate(reader, 0, page.num_values)
            return
        present, position = self._read_presence(reader)
        count = page.num_values if present is None else int(present.sum())
        if page.has_positions:
            values = self._look_up(reader, position, count)
        else:
            values = self._locate(reader, position, count)
        self._place(values, present, page.num_values)

    def finish(self) -> ChunkIndex:
        offsets = [offset for offset, _ in self._pieces]
        lengths = [length for _, length in self._pieces]
        return ChunkIndex(
            self._values,
            np.concatenate([np.empty(0, np.int64), *offsets]),
            np.concatenate([np.empty(0, np.int32), *lengths]).astype(np.int32),
            tuple(self._pages),
            tuple(self._page_starts),
            tuple(self._page_blocks),
        )

    def _place(self, values: Values, present: NDArray[np.bool_] | None, count: int) -> None:
        target = slice(self._filled, self._filled + count)
        chosen = slice(None) if present is None else present
        self._values.rung[target][chosen] = values.rung
        self._values.place[target][chosen] = values.place
        self._values.length[target][chosen] = values.length
        self._filled += count

    def _read_presence(self, reader: PageReader) -> tuple[NDArray[np.bool_] | None, int]:
        """Return which rows have a value (None: all), and where the values start in the page."""
        page = reader.page
        if self._max_level == 0:
            return None, 0
        if page.is_version_2:
            begin = page.body + page.repetition_bytes
            levels, start = self._file.read(begin, page.definition_bytes), 0
        else:
            length = int.from_bytes(reader.read(0, 4), "little")
            levels, start = reader.read(4, length), 4 + length
        numbers = decode_hybrid(levels, self._max_level.bit_length(), page.num_values)
        present = numbers == self._max_level
        return (None if present.all() else present), start

    def _look_up(self, reader: PageReader, position: int, count: int) -> Values:
        dictionary = self._dictionary
        if dictionary is None:
            raise CorruptFileError("A page refers to a dictionary, but there is none before it.")
        if count == 0:
            return dictionary.take(np.empty(0, np.int64))
        packed = reader.read(position, reader.page.unpacked_bytes - position)
        if not packed:
            raise CorruptFileError("A page has no dictionary positions.")
        positions = decode_hybrid(packed[1:], packed[0], count)
        if int(positions.max()) >= len(dictionary.rung):
            raise CorruptFileError(
                f"A page refers to entry {int(positions.max())} of a dictionary "
                f"with {len(dictionary.rung)} entries."
            )
        return dictionary.take(positions)

    def _locate(self, reader: PageReader, position: int, count: int) -> Values:
        """Return where the byte strings of a page lie, each written after its length."""
        page = reader.page
        if count * 4 > page.unpacked_bytes - position:
            raise CorruptFileError(
                f"A page of {page.unpacked_bytes} bytes cannot hold {count} values."
            )
        lengths = walk_lengths(reader.read, position, page.unpacked_bytes, count)
        starts = position + 4 + np.concatenate([[0], np.cumsum(lengths[:-1] + 4)])[:count]
        if reader.is_verbatim:
            return Values(
                np.full(count, Rung.EXTENT, np.uint8),
                np.where(lengths == 0, 0, page.offset + starts),
                lengths.astype(np.int32),
            )
        otherwise = Rung.PAGE if reader.blocks is None else Rung.BLOCK
        values = Values(
            np.full(count, otherwise, np.uint8),
            starts + self._next_page_start,
            lengths.astype(np.int32),
        )
        if reader.literals is not None:
            self._locate_literals(reader.literals, values, starts, lengths)
        values.rung[lengths == 0] = Rung.EXTENT
        values.place[lengths == 0] = 0
        if (values.rung >= Rung.BLOCK).any():
            self._keep(reader)
        return values

    def _locate_literals(
        self,
        literals: LiteralMap,
        values: Values,
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> None:
        first, last, covered = literals.runs_of(starts, starts + lengths)
        extents = covered & (first == last)
        runs = first[extents]
        values.rung[extents] = Rung.EXTENT
        values.place[extents] = (
            literals.run_offset[runs] + starts[extents] - literals.run_start[runs]
        )

        joined = np.flatnonzero(covered & (first < last) & (last - first < _MOST_PIECES))
        if len(joined) == 0:
            return
        counts = last[joined] - first[joined] + 1
        values.rung[joined] = Rung.JOINED
        values.place[joined] = self._num_pieces + np.concatenate([[0], np.cumsum(counts)[:-1]])
        owner = np.repeat(joined, counts)
        runs = first[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        start = np.maximum(starts[owner], literals.run_start[runs])
        run_stop = literals.run_start[runs] + literals.run_length[runs]
        stop = np.minimum(starts[owner] + lengths[owner], run_stop)
        offset = literals.run_offset[runs] + start - literals.run_start[runs]
        self._pieces.append((offset, stop - start))
        self._num_pieces += len(owner)

    def _keep(self, reader: PageReader) -> None:
        self._pages.append(reader.page)
        self._page_starts.append(self._next_page_start)
        self._page_blocks.append(reader.blocks)
        self._next_page_start += reader.page.unpacked_bytes
