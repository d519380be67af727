"""Record batches one after another, each mapped when it is first needed."""

from __future__ import annotations

import itertools
import mmap
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from roboreel.errors import CorruptFileError, MissingFileError
from roboreel.storage.shards.buffers import Column, Part, column_of, gather
from roboreel.storage.shards.features import (
    Array,
    ClassLabel,
    Kind,
    Sequence,
    Struct,
    Value,
    arrow_type,
    features_of_schema,
    is_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Sequence as Items
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.storage.shards.manifest import Shard
    from roboreel.storage.shards.publish import Hold

__all__ = ["BatchReader", "BatchTable", "MappedShard", "TableReader"]


class BatchReader(Protocol):
    """Where record batches come from: a mapped file, or memory."""

    @property
    def batch_rows(self) -> Items[int]:
        """Rows of each batch."""

    def read(self, batch: int) -> pa.RecordBatch:
        """Return one batch; its buffers stay where they are."""

    def close(self) -> None:
        """Let go of the file; `read` opens it again. Batches already read stay good."""


class TableReader:
    """The batches of a table in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._batches = table.to_batches()
        self.batch_rows = [batch.num_rows for batch in self._batches]

    def read(self, batch: int) -> pa.RecordBatch:
        """Return one batch."""
        return self._batches[batch]

    def close(self) -> None:
        """Keep the table: there is no file to let go of."""

    def __str__(self) -> str:
        return "a table in memory"


class MappedShard:
    """An Arrow IPC file, or stream, mapped into memory when it is first read."""

    def __init__(self, path: Path, shard: Shard | None = None) -> None:
        """Take a path, and what is known of the file; without that, it is opened now."""
        self._path = path
        self._expected = shard
        self._open: pa.RecordBatchFileReader | list[pa.RecordBatch] | None = None
        self.batch_rows: Items[int] = shard.batch_rows if shard else self._count_rows()

    @property
    def schema(self) -> pa.Schema:
        """The columns as they are stored."""
        opened = self._opened()
        return opened[0].schema if isinstance(opened, list) else opened.schema

    def read(self, batch: int) -> pa.RecordBatch:
        """Return one batch, checked as far as that needs no look at its values."""
        opened = self._opened()
        try:
            found = opened[batch] if isinstance(opened, list) else opened.get_batch(batch)
            found.validate()
        except (pa.ArrowException, OSError) as error:
            raise self._corrupt(f"Batch {batch} cannot be read ({error})") from error
        if found.num_rows != self.batch_rows[batch]:
            rows = self.batch_rows[batch]
            raise self._corrupt(f"Batch {batch} has {found.num_rows} rows, {rows} were written")
        return found

    def close(self) -> None:
        """Let go of the map, which goes when the last batch does."""
        self._open = None

    def _opened(self) -> pa.RecordBatchFileReader | list[pa.RecordBatch]:
        opened = self._open
        if opened is None:
            opened = self._open = self._map()
        return opened

    def _map(self) -> pa.RecordBatchFileReader | list[pa.RecordBatch]:
        try:
            with self._path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError as error:
            raise MissingFileError(
                f"A shard is missing. Write the shards again: {str(self._path)!r}"
            ) from error
        except ValueError as error:
            raise self._corrupt("The shard is empty") from error
        expected = self._expected
        if expected is not None and len(mapped) != expected.size_bytes:
            raise self._corrupt(f"{len(mapped)} bytes, {expected.size_bytes} were written")
        return self._parse(pa.py_buffer(mapped))

    def _parse(self, buffer: pa.Buffer) -> pa.RecordBatchFileReader | list[pa.RecordBatch]:
        try:
            if buffer[:6].to_pybytes() != b"ARROW1":
                return list(pa.ipc.open_stream(buffer))
            reader = pa.ipc.open_file(buffer)
        except (pa.ArrowException, OSError) as error:
            raise self._corrupt(f"Not an Arrow file ({error})") from error
        expected = self._expected
        if expected is not None and reader.num_record_batches != len(expected.batch_rows):
            raise self._corrupt(
                f"{reader.num_record_batches} batches, {len(expected.batch_rows)} were written"
            )
        return reader

    def _count_rows(self) -> list[int]:
        opened = self._opened()
        if isinstance(opened, list):
            return [batch.num_rows for batch in opened]
        return [opened.get_batch(batch).num_rows for batch in range(opened.num_record_batches)]

    def __str__(self) -> str:
        return repr(str(self._path))

    def _corrupt(self, reason: str) -> CorruptFileError:
        return CorruptFileError(f"{reason}. Write the shards again: {str(self._path)!r}")


class _Batch:
    """A record batch as columns, ready to give rows."""

    __slots__ = ("columns", "getters", "shard")

    def __init__(self, columns: Mapping[str, Column], shard: int) -> None:
        self.columns = columns
        self.getters = tuple((name, column.get) for name, column in columns.items())
        self.shard = shard


class BatchTable:
    """The rows of all batches, counted through.

    Of more than ``max_open`` shards, the one used longest ago is let go of. There is no lock:
    threads that need the same batch at once may both load it, and one result stays.
    """

    def __init__(
        self,
        features: Mapping[str, Kind],
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
        self._max_open = max_open
        self._may_close = len(readers) > max_open
        self._open: set[int] = set()
        self._clock = itertools.count()
        self._used = [0] * len(readers)

    @property
    def num_rows(self) -> int:
        """Rows of all batches together."""
        return int(self._bounds[-1])

    @property
    def num_open(self) -> int:
        """How many shards are mapped now."""
        return len(self._open)

    def row(self, row: int) -> dict[str, Any]:
        """Return one row, which must exist."""
        number = bisect_right(self._starts, row) - 1
        batch = self._batches[number] or self._load(number)
        if self._may_close:
            self._used[batch.shard] = next(self._clock)
        row -= self._starts[number]
        return {name: get(row) for name, get in batch.getters}

    def gather(self, rows: NDArray[np.int64], names: Items[str]) -> dict[str, Any]:
        """Return some columns of rows that must exist, in any order, as often as asked."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return self.span(int(rows[0]), int(rows[-1]) + 1, names)
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        numbers = np.searchsorted(self._bounds, ascending, side="right") - 1
        edges = np.flatnonzero(np.diff(numbers)) + 1
        parts = []
        for start, stop in itertools.pairwise([0, *edges.tolist(), len(rows)]):
            if stop > start:
                number = int(numbers[start])
                local = ascending[start:stop] - self._bounds[number]
                parts.append((self._batch(number), local, order[start:stop]))
        return self._collect(parts, len(rows), names)

    def span(self, start: int, stop: int, names: Items[str]) -> dict[str, Any]:
        """Return some columns of the rows ``[start, stop)``, which must exist."""
        parts = []
        first = bisect_right(self._starts, start) - 1
        for number in range(first, len(self._starts)):
            base, end = int(self._bounds[number]), int(self._bounds[number + 1])
            if base >= stop:
                break
            begin, cease = max(start, base), min(stop, end)
            if cease > begin:
                rows, places = (
                    slice(begin - base, cease - base),
                    slice(begin - start, cease - start),
                )
                parts.append((self._batch(number), rows, places))
        return self._collect(parts, stop - start, names)

    def _collect(
        self, parts: Items[tuple[_Batch, Any, Any]], length: int, names: Items[str]
    ) -> dict[str, Any]:
        if not parts:
            return {name: _empty_column(self.features[name]) for name in names}
        return {
            name: gather(
                [Part(batch.columns[name], rows, places) for batch, rows, places in parts], length
            )
            for name in names
        }

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
        batch = _Batch(self._columns(record_batch, shard), shard)
        self._batches[number] = batch
        self._open.add(shard)
        while len(self._open) > self._max_open:
            self._release(min(self._open - {shard}, key=self._used.__getitem__))
        return batch

    def _columns(self, batch: pa.RecordBatch, shard: int) -> dict[str, Column]:
        try:
            return {
                name: column_of(batch.column(name), kind) for name, kind in self.features.items()
            }
        except CorruptFileError as error:
            raise CorruptFileError(f"{error} {self._readers[shard]}") from error

    def _check_schema(self, schema: pa.Schema, shard: int) -> None:
        """Compare a shard's columns with the store's, offsets of 32 and 64 bits being the same."""
        stored = {name: arrow_type(kind) for name, kind in features_of_schema(schema).items()}
        wanted = {name: arrow_type(kind) for name, kind in self.features.items()}
        if stored != wanted:
            raise CorruptFileError(
                f"Other columns than in the rest of the store: {stored}, not {wanted}. "
                f"Write the shards again: {self._readers[shard]}"
            )

    def close(self) -> None:
        """Let go of all files, and of the right that they stay."""
        for shard in list(self._open):
            self._release(shard)
        if self._hold is not None:
            self._hold.close()

    def _release(self, shard: int) -> None:
        self._open.discard(shard)
        for number in range(self._first_batch[shard], self._first_batch[shard + 1]):
            self._batches[number] = None
        self._readers[shard].close()


def _empty_column(kind: Kind) -> Any:  # noqa: ANN401  # list, array or dict
    match kind:
        case Struct(fields):
            return {name: _empty_column(of) for name, of in fields.items()}
        case Array(shape, dtype):
            return np.empty((0, *shape), dtype)
        case Sequence(Value(dtype), int(length)):
            return np.empty((0, length), dtype)
        case ClassLabel():
            return np.empty(0, np.int64)
        case Value(dtype) if is_number(kind):
            return np.empty(0, dtype)
        case _:
            return []
