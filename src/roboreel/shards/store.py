"""A shard store as a user reads it: rows, columns, batches, views."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from roboreel.errors import FeatureNotFoundError, MissingFileError, RowNotFoundError
from roboreel.memory.heap import keep_freed_memory
from roboreel.numbers import inside, whole_numbers
from roboreel.shards.decode import decode_column, decode_value
from roboreel.shards.features import FeatureType, arrow_schema, as_feature, features_of_schema
from roboreel.shards.origin import ForeignOrigin, GenerationOrigin, Origin, TableOrigin
from roboreel.shards.publish import current_generation

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Sequence as Items

    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    from roboreel.shards.batches import BatchTable

__all__ = ["Batch", "Store", "open_shards"]

Batch: TypeAlias = "dict[str, Any]"
"""Columns by feature name, in memory of their own:

* numbers, labels, arrays and sequences of fixed length: one array ``(B, …)``;
* structs: a dict of columns;
* images and bytes: a list of bytes; text and video paths: a list of str;
* sequences of any length: a list of arrays for numbers, of lists for anything else.

A column with nulls is a list, with None for each null.
"""


def open_shards(path: str | os.PathLike[str], *, max_open: int = 64) -> Store:
    """Return the store in a folder; each shard is mapped on first use.

    The folder is one that `write_shards` made, or one with ``*.arrow`` files of another tool (IPC
    files or streams, read in the order of their names).

    Args:
        path: The folder.
        max_open: How many shards may be mapped at once; the least recently used is closed first.

    Raises:
        MissingFileError: There is no store, or some of its files are missing.
        CorruptFileError: A file is not what was written.
    """
    keep_freed_memory()
    root = Path(path)
    if max_open < 1:
        raise ValueError(f"max_open must be at least 1, not {max_open}.")
    if current_generation(root) is not None:
        return Store(*GenerationOrigin.newest(root, max_open))
    foreign = tuple(sorted(root.glob("*.arrow")))
    if not foreign:
        raise MissingFileError(f"There are no shards. Write some with write_shards: {str(root)!r}")
    origin = ForeignOrigin(foreign, max_open)
    return Store(origin, origin.open())


class Store:
    """Rows of mapped shards or of a table in memory, or a view of some of them.

    Rows are numbered from 0; negative numbers count from the end. Results share no memory with the
    store. Stores are thread-safe, survive a fork, and pickle as a path.
    """

    __slots__ = ("_decodes", "_length", "_origin", "_rows", "_table")

    def __init__(
        self,
        origin: Origin,
        table: BatchTable,
        rows: NDArray[np.int64] | None = None,
        *,
        decodes: bool = False,
    ) -> None:
        """Use `open_shards` or `Store.from_table`."""
        self._origin = origin
        self._table = table
        self._rows = rows
        self._decodes = decodes
        self._length = table.num_rows if rows is None else len(rows)

    @classmethod
    def from_table(cls, table: pa.Table, features: Mapping[str, object] | None = None) -> Store:
        """Return a table in memory as a store; nothing is copied.

        Args:
            table: The table.
            features: The features of columns whose Arrow type does not tell: images, labels,
                arrays.
        """
        declared = {name: as_feature(feature) for name, feature in (features or {}).items()}
        origin = TableOrigin(table, features_of_schema(table.schema) | declared)
        return cls(origin, origin.open())

    @property
    def features(self) -> dict[str, FeatureType]:
        """The features by name."""
        return dict(self._table.features)

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow types; bytes, text and lists have 64-bit offsets."""
        return arrow_schema(self._table.features)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Store({self._length} rows of {', '.join(self._table.features)})"

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
            return self._columns(rows)  # True would be row 1: refused there.
        try:
            asked = operator.index(rows)  # type: ignore[arg-type]  # that is the question
        except TypeError:
            return self._columns(rows)
        row = asked + self._length if asked < 0 else asked
        if not 0 <= row < self._length:
            return self._columns([asked])  # Refused there.
        if self._rows is not None:
            row = int(self._rows[row])
        values = self._table.row(row)
        if self._decodes:
            return {
                name: decode_value(self._table.features[name], value, f"{name!r} of row {row}")
                for name, value in values.items()
            }
        return values

    def _columns(self, rows: object) -> Batch:
        if not isinstance(rows, slice):
            return self.take(rows)  # type: ignore[arg-type]  # checked there
        start, stop, step = rows.indices(self._length)
        if step == 1:
            return self.slice(start, max(0, stop - start))
        return self.take(np.arange(start, stop, step))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(self._length))

    def take(self, rows: ArrayLike, *, features: str | Iterable[str] | None = None) -> Batch:
        """Return rows as columns, in the order of ``rows``; see `Batch`.

        Args:
            rows: Row numbers ``(B,)``, in any order, repeats allowed.
            features: One or several feature names; all features by default.

        Raises:
            RowNotFoundError: A row does not exist.
            FeatureNotFoundError: A feature does not exist.
            TypeError: The rows are not whole numbers: fractions, a mask.
        """
        wanted = self._checked_rows(rows)
        if self._rows is not None:
            wanted = self._rows[wanted]
        return self._finished(self._table.gather(wanted, self._checked_names(features)))

    def slice(
        self, start: int, count: int, *, features: str | Iterable[str] | None = None
    ) -> Batch:
        """Return the ``count`` rows from ``start`` on as columns; see `take`."""
        if start < 0 or count < 0 or start + count > self._length:
            raise RowNotFoundError(
                f"Rows {start} to {start + count - 1} do not all exist: "
                f"there are {self._length} rows in {self._origin}."
            )
        names = self._checked_names(features)
        if self._rows is not None:
            return self._finished(self._table.gather(self._rows[start : start + count], names))
        return self._finished(self._table.span(start, start + count, names))

    def iter_batches(
        self,
        batch_size: int = 256,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        drop_last: bool = False,
        features: str | Iterable[str] | None = None,
    ) -> Iterator[Batch]:
        """Return an iterator over all rows, in batches of columns; see `take`.

        Args:
            batch_size: Rows per batch; the last batch may be shorter.
            shuffle: Whether to visit the rows in random order.
            seed: Makes that order reproducible; None for a new order every time.
            drop_last: Whether to drop a last batch that is shorter.
            features: One or several feature names; all features by default.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}.")
        names = self._checked_names(features)
        stop = self._length - self._length % batch_size if drop_last else self._length
        spans = ((start, min(start + batch_size, stop)) for start in range(0, stop, batch_size))
        if not shuffle:
            return (self.slice(start, end - start, features=names) for start, end in spans)
        order = np.random.default_rng(seed).permutation(self._length)
        return (self.take(order[start:end], features=names) for start, end in spans)

    def decoded(self) -> Store:
        """Return a view of the same rows with images as arrays, decoded on access.

        An image is ``(height, width, channels)`` with one or three channels. A column of images is
        a list, since their sizes may differ. See `roboreel.image.decode_image`.
        """
        return Store(self._origin, self._table, self._rows, decodes=True)

    def select(self, rows: ArrayLike) -> Store:
        """Return a view of some rows, in the order given; reads nothing.

        Raises:
            RowNotFoundError: A row does not exist.
            TypeError: The rows are not whole numbers: fractions, a mask.
        """
        chosen = self._checked_rows(rows).copy()  # The caller's array may change later.
        if self._rows is not None:
            chosen = self._rows[chosen]
        chosen.flags.writeable = False
        return Store(self._origin, self._table, chosen, decodes=self._decodes)

    def split(self, *, test: float = 0.1, seed: int | None = 0) -> tuple[Store, Store]:
        """Return a training view and a test view, which share no row.

        Args:
            test: The fraction of rows, chosen at random, in the test view. Both views keep the
                order of rows.
            seed: Makes the choice reproducible; None for a new choice every time.
        """
        if not 0 <= test <= 1:
            raise ValueError(f"test must be between 0 and 1, not {test}.")
        is_test = np.zeros(self._length, bool)
        order = np.random.default_rng(seed).permutation(self._length)
        is_test[order[: round(test * self._length)]] = True
        return self.select(np.flatnonzero(~is_test)), self.select(np.flatnonzero(is_test))

    def close(self) -> None:
        """Close the files, also for all views; the next read opens them again."""
        self._table.close()

    def __enter__(self) -> Store:  # noqa: PYI034  # Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._origin, self._rows, self._decodes)

    def _finished(self, batch: Batch) -> Batch:
        if not self._decodes:
            return batch
        return {
            name: decode_column(self._table.features[name], column, repr(name))
            for name, column in batch.items()
        }

    def _checked_rows(self, rows: ArrayLike) -> NDArray[np.int64]:
        return inside(whole_numbers(rows, "row"), self._length, "row", where=f", in {self._origin}")

    def _checked_names(self, features: str | Iterable[str] | None) -> Items[str]:
        if features is None:
            return tuple(self._table.features)
        names = (features,) if isinstance(features, str) else tuple(features)
        for name in names:
            if name not in self._table.features:
                there = ", ".join(map(repr, self._table.features))
                raise FeatureNotFoundError(
                    f"There is no feature {name!r}: there are {there} in {self._origin}."
                )
        return names


def _reopen(origin: Origin, rows: NDArray[np.int64] | None, decodes: bool) -> Store:
    return Store(origin, origin.open(), rows, decodes=decodes)
