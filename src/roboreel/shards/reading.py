"""Rows of a store as values, columns of arrays, and Arrow tables."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

import numpy as np
import pyarrow as pa

from roboreel.errors import FeatureNotFoundError, RowNotFoundError
from roboreel.numbers import inside, positions, whole_numbers
from roboreel.shards.arrow import arrow_schema
from roboreel.shards.decode import decode_column, decode_value
from roboreel.shards.source import StoreSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Sequence as Items
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from roboreel.shards.columns import Columns
    from roboreel.shards.decode import Decoding
    from roboreel.shards.features import FeatureType


Batch: TypeAlias = "dict[str, Any]"
"""Columns by feature name, in memory of their own:

* numbers, labels, arrays and sequences of fixed length: one array ``(B, …)``;
* structs: a dict of columns;
* images and bytes: a list of bytes; text and video paths: a list of str;
* sequences of any length: a list of arrays for numbers, of lists for anything else.

A column with nulls is a list, with None for each null.
"""

Rows: TypeAlias = "ArrayLike | slice"
"""Rows, by their numbers or as a slice."""


class StoreReader:
    """The reading half of a `Store`: columns of one table or several, at some of their rows."""

    __slots__ = ("_columns", "_decoding", "_length", "_order", "_plain", "_schema")

    def __init__(
        self,
        columns: Items[Columns],
        order: Items[str] | None = None,
        decoding: Decoding | None = None,
    ) -> None:
        """Use `open_shards` or `Store.from_table`."""
        self._columns = tuple(columns)
        self._order = order or tuple(name for part in self._columns for name in part.names)
        self._decoding = decoding
        self._length = len(self._columns[0])
        only = self._columns[0] if len(self._columns) == 1 else None
        self._plain = only.table if only is not None and only.is_whole else None
        """The table, if all its columns are here: its rows need no translation."""
        self._schema: pa.Schema | None = None

    @property
    def features(self) -> dict[str, FeatureType]:
        """The features by name."""
        known = {name: of for part in self._columns for name, of in part.features.items()}
        return {name: known[name] for name in self._order}

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow types; bytes, text and lists have 64-bit offsets."""
        if self._schema is None:
            self._schema = arrow_schema(self.features)
        return self._schema

    @property
    def path(self) -> Path | None:
        """The folder or file; None for a table in memory."""
        return self._columns[0].origin.path

    @property
    def is_file_backed(self) -> bool:
        """Whether the rows are mapped from files."""
        return self.path is not None

    @property
    def num_shards(self) -> int:
        """How many files there are, also those without a row of this view; 0 for a table."""
        return self._columns[0].table.num_shards if self.is_file_backed else 0

    @property
    def identity(self) -> list[Any] | None:
        """What the content follows from, in JSON types: files and their checksums, rows, columns.

        None for a table in memory.
        """
        parts = [part.identity() for part in self._columns]
        decoding = None if self._decoding is None else str(self._decoding)
        return None if None in parts else [*parts, list(self._order), decoding]

    @property
    def table(self) -> pa.Table:
        """All rows as an Arrow table, straight from the map; see `to_batches`.

        Nothing is copied for all rows of a store, or some of its columns. A view of some rows is
        gathered, and so takes the memory of these rows.
        """
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_batches(
        self, *, features: str | Iterable[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Return an iterator over all rows as Arrow record batches, images as they are stored.

        The batches of a store are those of its files: nothing is copied, and a batch stays valid
        after the store is closed. Columns that another tool wrote with 32-bit offsets get 64-bit
        ones; their bytes are not copied. A view of some rows is gathered, a batch at a time.
        """
        names = self._checked_names(features)
        if len(self._columns) == 1:
            return self._columns[0].record_batches(names, self._schema_of(names))
        spans = (range(at, min(at + 1000, self._length)) for at in range(0, self._length, 1000))
        taken = (self.take_table(span, features=names) for span in spans)
        return (batch for table in taken for batch in table.to_batches())

    def take_table(self, rows: Rows, *, features: str | Iterable[str] | None = None) -> pa.Table:
        """Return rows as an Arrow table, in the order of ``rows``; see `take`.

        Rows that follow one another are not copied. A slice, or a range of step 1, takes
        the same time for any number of rows. A slice may reach past the end, like that of a list.
        """
        wanted, names = self._checked_run(rows), self._checked_names(features)
        found: dict[str, Any] = {}
        for part, own in self._parts(names):
            found |= zip(own, part.arrow(wanted, own), strict=True)
        return pa.Table.from_arrays([found[name] for name in names], schema=self._schema_of(names))

    def _schema_of(self, names: Items[str]) -> pa.Schema:
        if names == self._order:
            return self.schema
        of = self.features
        return arrow_schema({name: of[name] for name in names})

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Store({self._length} rows of {', '.join(self._order)})"

    def __getitem__(self, rows: SupportsIndex | slice | ArrayLike) -> dict[str, Any]:
        """Return one row, or several rows as columns.

        * ``store[5]`` is a row: numbers as NumPy scalars and arrays, images as bytes.
        * ``store[2:5]``, ``store[[7, 1]]`` and ``store[numpy.arange(3)]`` are columns, as `take`
          returns them. A slice may reach past the end, like that of a list.

        Raises:
            RowNotFoundError: A row does not exist.
            TypeError: The rows are not whole numbers: fractions, a mask.
        """
        if isinstance(rows, bool | np.bool_):
            return self._several(rows)  # True would be row 1: refused there.
        try:
            asked = operator.index(rows)  # type: ignore[arg-type]  # that is the question
        except TypeError:
            return self._several(rows)
        row = asked + self._length if asked < 0 else asked
        if not 0 <= row < self._length:
            return self._several([asked])  # Refused there.
        return self._row(row)

    def _row(self, row: int) -> dict[str, Any]:
        if self._plain is not None:
            rows = self._columns[0].rows
            values = self._plain.row(row if rows is None else int(rows[row]))
        else:
            found: dict[str, Any] = {}
            for part in self._columns:
                found |= part.row(row)
            values = {name: found[name] for name in self._order}
        if self._decoding is None:
            return values
        features, how = self.features, self._decoding
        return {
            name: decode_value(features[name], value, f"{name!r} of row {row}", how)
            for name, value in values.items()
        }

    def _several(self, rows: object) -> Batch:
        if isinstance(rows, slice):
            return self.take(rows)
        where = f", in {self._place}"
        return self.take(positions(rows, self._length, "row", where=where))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._row, range(self._length))

    def take(self, rows: Rows, *, features: str | Iterable[str] | None = None) -> Batch:
        """Return rows as columns, in the order of ``rows``; see `Batch`.

        Args:
            rows: Row numbers ``(B,)``, in any order, repeats allowed; or a slice.
            features: One or several feature names; all features by default.

        Raises:
            RowNotFoundError: A row does not exist.
            FeatureNotFoundError: A feature does not exist.
            TypeError: The rows are not whole numbers: fractions, a mask.
        """
        wanted, names = self._checked_run(rows), self._checked_names(features)
        return self._joined(wanted, names)

    def slice(
        self, start: int, count: int, *, features: str | Iterable[str] | None = None
    ) -> Batch:
        """Return the ``count`` rows from ``start`` on as columns; see `take`."""
        if start < 0 or count < 0 or start + count > self._length:
            raise RowNotFoundError(
                f"Rows {start} to {start + count - 1} do not all exist: "
                f"there are {self._length} rows in {self._place}."
            )
        names = self._checked_names(features)
        return self._joined(range(start, start + count), names)

    def iter_batches(
        self,
        batch_size: int = 256,
        *,
        shuffle: RowShuffle = False,
        seed: int | None = None,
        drop_last: bool = False,
        features: str | Iterable[str] | None = None,
    ) -> Iterator[Batch]:
        """Return an iterator over all rows, in batches of columns; see `take`.

        Args:
            batch_size: Rows per batch; the last batch may be shorter.
            shuffle: False; True for a random order over all rows; ``"shards"`` for one shard after
                another in random order, and random rows inside each, so that a store larger than
                memory is read file by file.
            seed: Makes that order reproducible; None for a new order every time.
            drop_last: Whether to drop a last batch that is shorter.
            features: One or several feature names; all features by default.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}.")
        if shuffle not in (True, False, "shards"):
            raise ValueError(f"shuffle is True, False or 'shards', not {shuffle!r}.")
        names = self._checked_names(features)
        stop = self._length - self._length % batch_size if drop_last else self._length
        spans = ((start, min(start + batch_size, stop)) for start in range(0, stop, batch_size))
        if not shuffle:
            return (self.slice(start, end - start, features=names) for start, end in spans)
        order = (
            shuffled_shards(self._columns[0].shards(), seed)
            if shuffle == "shards"
            else np.random.default_rng(seed).permutation(self._length)
        )
        return (self.take(order[start:end], features=names) for start, end in spans)

    def close(self) -> None:
        """Close the files, also for all views; the next read opens them again."""
        for part in self._columns:
            part.table.close()

    def as_source(self) -> StoreSource:
        """Return the rows as samples; ``Loader`` and ``Mixture`` do this themselves."""
        return StoreSource(self)

    @property
    def _place(self) -> str:
        return str(self._columns[0].origin)

    def _parts(self, names: Items[str]) -> Iterator[tuple[Columns, list[str]]]:
        for part in self._columns:
            own = [name for name in names if name in part.names]
            if own:
                yield part, own

    def _joined(self, rows: NDArray[np.int64] | range, names: Items[str]) -> Batch:
        found: dict[str, Any] = {}
        for part, own in self._parts(names):
            found |= part.gather(rows, own)
        if self._decoding is None:
            return {name: found[name] for name in names}
        features, how = self.features, self._decoding
        return {name: decode_column(features[name], found[name], repr(name), how) for name in names}

    def _checked_rows(self, rows: Rows) -> NDArray[np.int64]:
        if isinstance(rows, slice):
            return np.arange(*rows.indices(self._length))
        return inside(whole_numbers(rows, "row"), self._length, "row", where=f", in {self._place}")

    def _checked_run(self, rows: Rows) -> NDArray[np.int64] | range:
        """Return checked rows; a range of step 1 as it is, if it is not empty."""
        if isinstance(rows, slice):
            rows = range(*rows.indices(self._length))
        if isinstance(rows, range) and rows.step == 1 and 0 <= rows.start < rows.stop:
            if rows.stop <= self._length:
                return rows
            rows = [rows[-1]]  # Refused below.
        return self._checked_rows(rows)

    def _checked_names(self, features: str | Iterable[str] | None) -> Items[str]:
        if features is None:
            return tuple(self._order)
        names = (features,) if isinstance(features, str) else tuple(features)
        for name in names:
            if name not in self._order:
                there = ", ".join(map(repr, self._order))
                raise FeatureNotFoundError(
                    f"There is no feature {name!r}: there are {there} in {self._place}."
                )
        return names


# The order in which an epoch visits the rows of a store.

RowShuffle: TypeAlias = "bool | Literal['shards']"
"""How rows are shuffled: not at all, over the whole store, or shard by shard."""


def shuffled_shards(shards: NDArray[np.int64], seed: int | None) -> NDArray[np.int64]:
    """Return all rows, shard after shard in random order, and in random order inside each shard."""
    generator = np.random.default_rng(seed)
    ascending = np.argsort(shards, kind="stable")
    edges = np.flatnonzero(np.diff(shards[ascending])) + 1
    groups = [rows for rows in np.split(ascending, edges) if len(rows)]
    chosen = generator.permutation(len(groups)).tolist()
    parts = [generator.permutation(groups[group]) for group in chosen]
    return np.concatenate([np.empty(0, np.int64), *parts])
