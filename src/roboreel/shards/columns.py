"""Columns of one table at some of its rows: what a view of a store consists of."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Sequence as Items

    from numpy.typing import NDArray

    from roboreel.shards.batches import BatchTable
    from roboreel.shards.features import FeatureType
    from roboreel.shards.origin import Origin

_ARROW_ROWS = 1000
"""Rows of a record batch that is gathered, and so held in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Some columns of a table, under names of their own, at some of its rows."""

    origin: Origin
    table: BatchTable
    names: Mapping[str, str]
    """The name in the table, by the name that the columns have here."""
    rows: NDArray[np.int64] | None = None
    """The row of the table for each row here; None for all rows in their order."""

    @classmethod
    def whole(cls, origin: Origin, table: BatchTable) -> Columns:
        """Return all columns at all rows."""
        return cls(origin, table, {name: name for name in table.features})

    def __len__(self) -> int:
        return self.table.num_rows if self.rows is None else len(self.rows)

    @property
    def features(self) -> dict[str, FeatureType]:
        """The features by their names here."""
        return {name: self.table.features[stored] for name, stored in self.names.items()}

    @property
    def is_whole(self) -> bool:
        """Whether these are all columns of the table, under their own names."""
        stored = self.table.features
        return len(stored) == len(self.names) and all(self.names.get(n) == n for n in stored)

    def at(self, rows: NDArray[np.int64]) -> Columns:
        """Return the columns at some of these rows."""
        chosen = rows if self.rows is None else self.rows[rows]
        return replace(self, rows=chosen)

    def named(self, names: Mapping[str, str]) -> Columns:
        """Return some of the columns, given the name that they have here by their new name."""
        return replace(self, names={new: self.names[old] for new, old in names.items()})

    def row(self, row: int) -> dict[str, Any]:
        """Return one row."""
        at = row if self.rows is None else int(self.rows[row])
        values = self.table.row(at, list(self.names.values()))
        return {name: values[stored] for name, stored in self.names.items()}

    def gather(self, rows: NDArray[np.int64] | range, names: Items[str]) -> dict[str, Any]:
        """Return columns of some rows, in their order."""
        batch = self.table.gather(self._at(rows), self._stored(names))
        return {name: batch[self.names[name]] for name in names}

    def arrow(self, rows: NDArray[np.int64] | range, names: Items[str]) -> list[Any]:
        """Return Arrow columns of some rows, in their order: arrays, or chunked arrays."""
        return self.table.arrow(self._at(rows), self._stored(names), chunked=True)

    def record_batches(self, names: Items[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield all rows, batch by batch; as stored if no row is left out."""
        if self.rows is None:
            yield from self.table.record_batches(self._stored(names), schema)
            return
        for start in range(0, len(self.rows), _ARROW_ROWS):
            arrays = self.table.arrow(self.rows[start : start + _ARROW_ROWS], self._stored(names))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def shards(self) -> NDArray[np.int64]:
        """Return the shard of each row."""
        return self.table.shards_of(np.arange(len(self)) if self.rows is None else self.rows)

    def identity(self) -> dict[str, Any] | None:
        """Return what the content follows from, in JSON types; None if that is not known."""
        origin = self.origin.identity()
        if origin is None:
            return None
        rows = None if self.rows is None else [len(self.rows), zlib.crc32(self.rows.tobytes())]
        return {"origin": origin, "names": dict(self.names), "rows": rows}

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.origin, dict(self.names), self.rows)

    def _stored(self, names: Items[str]) -> list[str]:
        return [self.names[name] for name in names]

    def _at(self, rows: NDArray[np.int64] | range) -> NDArray[np.int64] | range:
        """Return rows of the table."""
        if self.rows is None:
            return rows
        return self.rows[slice(rows.start, rows.stop) if isinstance(rows, range) else rows]


def _reopen(origin: Origin, names: Mapping[str, str], rows: NDArray[np.int64] | None) -> Columns:
    return Columns(origin, origin.open(), names, rows)
