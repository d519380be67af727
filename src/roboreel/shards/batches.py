"""The record batches of all shards as one table, each loaded on first use."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.errors import CorruptFileError, MetadataError
from roboreel.io.disk_watch import DiskWatch, usual_row_ns
from roboreel.shards.arrow import (
    arrow_type,
    as_declared,
    concat,
    features_of_schema,
    fits,
    is_run,
    plain_array,
    take_rows,
)
from roboreel.shards.buffers import (
    NumberReader,
    Part,
    ValueReader,
    empty_column,
    gather,
    value_reader,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Sequence as Items

    from numpy.typing import NDArray

    from roboreel.shards.features import FeatureType
    from roboreel.shards.publish import Hold
    from roboreel.shards.readers import BatchReader

# From so many rows on, all batches are looked up once to gather rows of numbers in one step.
_MANY_ROWS = 256


class _Batch:
    """A record batch whose values can be read by row."""

    __slots__ = ("arrow", "columns", "getters", "row_ns", "shard")

    def __init__(
        self, arrow: pa.RecordBatch, columns: Mapping[str, ValueReader], shard: int
    ) -> None:
        self.arrow = arrow
        self.columns = columns
        self.getters = tuple((name, column.get) for name, column in columns.items())
        self.shard = shard
        self.row_ns = usual_row_ns(_size_bytes(arrow) // max(1, arrow.num_rows))


class BatchTable:
    """The rows of all batches, numbered through.

    At most ``max_open`` shards are open; the least recently used is closed first. There is no lock:
    two threads that need the same batch may both load it, and one result is kept.

    After a read that had to wait for the disk, the next one is prefetched: see `DiskWatch`.
    """

    def __init__(
        self,
        features: Mapping[str, FeatureType],
        readers: Items[BatchReader],
        *,
        max_open: int,
        hold: Hold | None = None,
    ) -> None:
        self.features = dict(features)
        self._readers = readers
        self._hold = hold
        batch_rows = [rows for reader in readers for rows in reader.batch_rows]
        self._bounds: NDArray[np.int64] = np.concatenate(
            [[0], np.cumsum(batch_rows, dtype=np.int64)]
        )
        self._starts: list[int] = self._bounds[:-1].tolist()
        self._shard_of = [shard for shard, reader in enumerate(readers) for _ in reader.batch_rows]
        self._first_batch = np.cumsum([0, *(len(reader.batch_rows) for reader in readers)]).tolist()
        self._batches: list[_Batch | None] = [None] * len(batch_rows)
        self._flats: dict[str, FlatNumbers | None] = {}
        self._disk = DiskWatch()
        self._max_open = max_open
        self._may_close = len(readers) > max_open
        self._open: set[int] = set()
        self._clock = itertools.count()
        self._used = [0] * len(readers)

    @property
    def num_rows(self) -> int:
        """Rows of all batches."""
        return int(self._bounds[-1])

    @property
    def num_open(self) -> int:
        """How many shards are mapped now."""
        return len(self._open)

    @property
    def num_shards(self) -> int:
        """How many files there are, or tables in memory."""
        return len(self._readers)

    def shards_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the shard that each row lies in."""
        bounds = self._bounds[self._first_batch]
        return np.asarray(np.searchsorted(bounds, rows, side="right") - 1, np.int64)

    def row(self, row: int, names: Items[str] | None = None) -> dict[str, Any]:
        """Return one row, or some of its features; the caller has checked that they exist."""
        number = bisect_right(self._starts, row) - 1
        batch = self._batches[number] or self._load(number)
        if self._may_close:
            self._used[batch.shard] = next(self._clock)
        row -= self._starts[number]
        started_ns = perf_counter_ns()
        if self._disk.waits:
            self._prefetch([(batch, slice(row, row + 1), slice(0, 1))], names or self.features)
        try:
            if names is None:
                values = {name: get(row) for name, get in batch.getters}
            else:
                values = {name: batch.columns[name].get(row) for name in names}
        except CorruptFileError as error:
            raise self._naming_the_shard(error, batch.shard) from error
        self._disk.note(perf_counter_ns() - started_ns, batch.row_ns)
        return values

    def gather(self, rows: NDArray[np.int64] | range, names: Items[str]) -> dict[str, Any]:
        """Return columns of some rows, in their order; the caller has checked that they exist."""
        if isinstance(rows, range) or is_run(rows):
            return self._collect(self._consecutive(rows), len(rows), names)
        if len(rows) >= _MANY_ROWS and not self._disk.waits:
            flat = {name: column for name in names if (column := self._flat(name)) is not None}
            if len(flat) == len(names):
                return self._take_flat(flat, rows)
        return self._collect(self._scattered(rows), len(rows), names)

    def arrow(
        self, rows: NDArray[np.int64] | range, names: Items[str], *, chunked: bool = False
    ) -> list[Any]:
        """Return Arrow columns of some rows, in their order, in the types of their features.

        Rows that follow one another inside a batch are not copied; with ``chunked`` not even across
        batches, and columns may then be chunked arrays.
        """
        is_consecutive, back = True, None
        if isinstance(rows, range) or is_run(rows):
            parts = self._consecutive(rows)
        else:
            is_consecutive = False
            parts = self._scattered(rows)
            order = np.concatenate([np.empty(0, np.int64), *(places for _, _, places in parts)])
            if (order[1:] < order[:-1]).any():
                back = plain_array(np.argsort(order))
        columns = []
        for name in names:
            feature = self.features[name]
            taken = [
                as_declared(take_rows(batch.arrow.column(name), inside), feature)
                for batch, inside, _ in parts
            ]
            if len(taken) == 1:
                joined = taken[0]
            elif chunked and is_consecutive:
                joined = pa.chunked_array(taken, arrow_type(feature))
            else:
                joined = concat(taken, feature)
            columns.append(joined if back is None else joined.take(back))
        return columns

    def record_batches(self, names: Items[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the files, straight from the map.

        Args:
            names: The columns.
            schema: Their types, and the names they get.
        """
        for shard, reader in enumerate(self._readers):
            for number in range(len(reader.batch_rows)):
                found = reader.read(number)
                if number == 0:
                    self._check_schema(found.schema, shard)
                    self._keep_open(shard)
                if found.schema.equals(schema):
                    yield found
                    continue
                arrays = [as_declared(found.column(name), self.features[name]) for name in names]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _flat(self, name: str) -> FlatNumbers | None:
        """Return where a column lies in the files; None if it cannot be gathered in one step."""
        if name not in self._flats:
            maps = [] if self._may_close else [reader.mapped() for reader in self._readers]
            known = [found for found in maps if found is not None]
            self._flats[name] = None
            if known and len(known) == len(self._readers):
                columns = [self._batch(n).columns[name] for n in range(len(self._batches))]
                self._flats[name] = flatten(columns, self._bounds, self._shard_of, known)
        return self._flats[name]

    def _take_flat(
        self, columns: Mapping[str, FlatNumbers], rows: NDArray[np.int64]
    ) -> dict[str, Any]:
        started_ns = perf_counter_ns()
        taken = {name: column.take(rows) for name, column in columns.items()}
        row_ns = self._batches[0].row_ns if self._batches[0] else 0
        self._disk.note(perf_counter_ns() - started_ns, row_ns * len(rows))
        return taken

    def _scattered(self, rows: NDArray[np.int64]) -> list[tuple[_Batch, Any, Any]]:
        """Return the batches of some rows, with the rows in each and their places."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        numbers = np.searchsorted(self._bounds, ascending, side="right") - 1
        inside = ascending - self._bounds[numbers]
        edges = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
        return [
            (self._batch(int(numbers[start])), inside[start:stop], order[start:stop])
            for start, stop in itertools.pairwise([0, *edges, len(rows)])
            if stop > start
        ]

    def _consecutive(self, run: NDArray[np.int64] | range) -> list[tuple[_Batch, Any, Any]]:
        """Return the batches of rows that follow one another, as `_scattered` does."""
        parts: list[tuple[_Batch, Any, Any]] = []
        if not len(run):
            return parts
        start, stop = int(run[0]), int(run[-1]) + 1
        first = bisect_right(self._starts, start) - 1
        for number in range(first, len(self._starts)):
            base, end = int(self._bounds[number]), int(self._bounds[number + 1])
            if base >= stop:
                break
            begin, cease = max(start, base), min(stop, end)
            if cease > begin:
                rows = slice(begin - base, cease - base)
                places = slice(begin - start, cease - start)
                parts.append((self._batch(number), rows, places))
        return parts

    def _collect(
        self, parts: Items[tuple[_Batch, Any, Any]], length: int, names: Items[str]
    ) -> dict[str, Any]:
        if not parts:
            return {name: empty_column(self.features[name]) for name in names}
        started_ns = perf_counter_ns()
        if self._disk.waits:
            self._prefetch(parts, names)
        columns = {
            name: [Part(batch.columns[name], rows, places) for batch, rows, places in parts]
            for name in names
        }
        try:
            collected = {name: gather(column, length) for name, column in columns.items()}
        except CorruptFileError as error:
            for part in parts if len(parts) > 1 else ():  # one after the other, to name the shard
                self._collect([part], length, names)
            raise self._naming_the_shard(error, parts[0][0].shard) from error
        rows_ns = max(batch.row_ns for batch, _, _ in parts) * length
        self._disk.note(perf_counter_ns() - started_ns, rows_ns)
        return collected

    def _prefetch(self, parts: Items[tuple[_Batch, Any, Any]], names: Iterable[str]) -> None:
        for batch, rows, _ in parts:
            extents = (extent for name in names for extent in batch.columns[name].extents(rows))
            self._readers[batch.shard].prefetch(extents)

    def _batch(self, number: int) -> _Batch:
        batch = self._batches[number] or self._load(number)
        self._used[batch.shard] = next(self._clock)
        return batch

    def _load(self, number: int) -> _Batch:
        shard = self._shard_of[number]
        self._used[shard] = next(self._clock)
        record_batch = self._readers[shard].read(number - self._first_batch[shard])
        if shard not in self._open:
            self._check_schema(record_batch.schema, shard)
        batch = _Batch(record_batch, self._columns(record_batch, shard), shard)
        self._batches[number] = batch
        self._keep_open(shard)
        return batch

    def _keep_open(self, shard: int) -> None:
        """Remember that a shard is mapped, and close those that were used longest ago."""
        self._used[shard] = next(self._clock)
        self._open.add(shard)
        while len(self._open) > self._max_open and (others := self._open - {shard}):
            self._release(min(others, key=self._used.__getitem__))

    def _columns(self, batch: pa.RecordBatch, shard: int) -> dict[str, ValueReader]:
        try:
            return {
                name: value_reader(batch.column(name), feature)
                for name, feature in self.features.items()
            }
        except CorruptFileError as error:
            raise self._naming_the_shard(error, shard) from error

    def _naming_the_shard(self, error: CorruptFileError, shard: int) -> CorruptFileError:
        return CorruptFileError(f"{error} {self._readers[shard]}")

    def _check_schema(self, schema: pa.Schema, shard: int) -> None:
        """Raise if a shard's columns differ from the store's; the width of offsets does not matter."""
        try:
            stored = features_of_schema(schema)
        except MetadataError as error:
            raise CorruptFileError(f"{error} {self._readers[shard]}") from error
        if stored.keys() != self.features.keys() or not all(
            fits(feature, stored[name]) for name, feature in self.features.items()
        ):
            raise CorruptFileError(
                f"The columns differ from those of the store: {stored}, not {self.features}. "
                f"Write the shards again: {self._readers[shard]}"
            )

    def close(self) -> None:
        """Close all files, and let writers remove them."""
        for shard in list(self._open):
            self._release(shard)
        if self._hold is not None:
            self._hold.close()

    def _release(self, shard: int) -> None:
        self._open.discard(shard)
        for number in range(self._first_batch[shard], self._first_batch[shard + 1]):
            self._batches[number] = None
        self._readers[shard].close()


def _size_bytes(batch: pa.RecordBatch) -> int:
    try:
        return int(batch.nbytes)
    except pa.ArrowTypeError:  # pyarrow 18 does not measure views.
        return int(batch.get_total_buffer_size())


# One column of numbers in all batches of mapped files, gathered in one step: ten times faster than
# batch by batch, for a thousand rows.


@dataclass(frozen=True, slots=True, eq=False)
class FlatNumbers:
    """Where a column of numbers lies in mapped files."""

    bounds: NDArray[np.int64]
    """Batch ``b`` holds the rows ``[bounds[b], bounds[b + 1])``."""
    offset: NDArray[np.int64]
    """By batch, where row 0 would lie in its file if the batch began there."""
    shard: NDArray[np.int64]
    """By batch, the number of its file."""
    files: list[NDArray[np.void]]
    """The value that begins at each byte of a file; no copy."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of some rows, ``(N, …)``."""
        batch = self.bounds.searchsorted(rows, side="right") - 1
        at = rows * self.files[0].itemsize + self.offset[batch]
        if len(self.files) == 1:
            found = self.files[0][at]
        else:
            found = np.empty(len(rows), self.files[0].dtype)
            shard = self.shard[batch]
            for number, file in enumerate(self.files):
                places = np.flatnonzero(shard == number)
                found[places] = file[at[places]]
        values: NDArray[Any] = found.view(self.dtype).reshape(len(rows), *self.shape)
        return values


def flatten(
    columns: Items[ValueReader],
    bounds: NDArray[np.int64],
    shard: Items[int],
    maps: Items[tuple[int, NDArray[np.uint8]]],
) -> FlatNumbers | None:
    """Return where a column lies, if all of it is plain numbers in the maps.

    Args:
        columns: The column in each batch.
        bounds: The rows of each batch.
        shard: The file of each batch.
        maps: Address and bytes of each file.
    """
    arrays = [column.values for column in columns if isinstance(column, NumberReader)]
    if len(arrays) < len(columns) or any(column.valid is not None for column in columns):
        return None
    shape, dtype = arrays[0].shape[1:], arrays[0].dtype
    size = math.prod(shape) * dtype.itemsize
    offset = np.zeros(len(arrays), np.int64)
    for number, values in enumerate(arrays):
        address, data = maps[shard[number]]
        begin = values.ctypes.data - address
        inside = begin >= 0 and begin + values.nbytes <= len(data)
        if not inside or not size or (values.shape[1:], values.dtype) != (shape, dtype):
            return None  # Unpacked elsewhere, or stored in another way.
        offset[number] = begin - int(bounds[number]) * size
    files = [
        np.ndarray((max(0, len(data) - size + 1),), f"V{size}", data, strides=(1,))
        for _, data in maps
    ]
    return FlatNumbers(bounds, offset, np.asarray(shard, np.int64), files, dtype, shape)
