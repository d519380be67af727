"""The mapped shards as rows and columns: one row, many rows, a span, batches, views."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from roboreel.errors import (
    CorruptFileError,
    FeatureNotFoundError,
    MissingFileError,
    RowNotFoundError,
)
from roboreel.image import decode_image
from roboreel.memory.heap import keep_freed_memory
from roboreel.shards.features import (
    FeatureType,
    Image,
    Sequence,
    Struct,
    arrow_schema,
    as_feature,
    features_of_schema,
)
from roboreel.shards.numbers import whole_numbers
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
"""Columns by the name of their feature, in memory of their own:

* numbers, labels, arrays and sequences of a fixed length: one array ``(B, …)``;
* structs: a dict of such columns;
* images and bytes: a list of bytes; text and paths of videos: a list of str;
* sequences of any length: a list, of arrays for numbers and of lists for the rest.

A column with a null among its rows is a list, with None in its place.
"""


def open_shards(path: str | os.PathLike[str], *, max_open: int = 64) -> Store:
    """Return the store in a folder; each shard is mapped when it is first needed.

    The folder is one that `write_shards` made, or one that holds ``*.arrow`` files of other tools
    (IPC files or streams, in the order of their names).

    Args:
        path: The folder.
        max_open: How many shards may be mapped at once; the one used longest ago is let go of.

    Raises:
        MissingFileError: There is no store, or a part of it is missing.
        CorruptFileError: What lies there is not what was written.
    """
    keep_freed_memory()
    root = Path(path)
    if max_open < 1:
        raise ValueError(f"At least one shard must be open to be read, not {max_open}.")
    generation = current_generation(root)
    if generation is not None:
        return Store(*GenerationOrigin.newest(root, max_open))
    foreign = tuple(sorted(root.glob("*.arrow")))
    if not foreign:
        raise MissingFileError(f"There are no shards. Write some with write_shards: {str(root)!r}")
    origin = ForeignOrigin(foreign, max_open)
    return Store(origin, origin.open())


class Store:
    """Rows that lie in mapped shards, or in a table in memory; or a selection of them.

    Rows are counted from 0, and from the end by negative numbers. What comes back is the caller's
    own: it shares no memory with the store. A store is pickled by its path, and may be used from
    several threads and after a fork.
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
            table: Its columns are read where they are.
            features: What some columns hold, where the schema does not tell: images, labels,
                shapes.
        """
        declared = {name: as_feature(feature) for name, feature in (features or {}).items()}
        origin = TableOrigin(table, features_of_schema(table.schema) | declared)
        return cls(origin, origin.open())

    @property
    def features(self) -> dict[str, FeatureType]:
        """What each column holds."""
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
          returns them. A slice may reach past the end, as that of a list may.

        Raises:
            RowNotFoundError: A row does not exist.
            TypeError: Something else than whole numbers was given, such as fractions or a mask.
        """
        try:
            asked = operator.index(rows)  # type: ignore[arg-type]  # tried first: it is the fast path
        except TypeError:
            return self._columns(rows)
        if isinstance(rows, bool):
            return self._columns(rows)  # Python takes True for 1; here it is refused.
        row = asked + self._length if asked < 0 else asked
        if not 0 <= row < self._length:
            raise self._no_row(asked)
        if self._rows is not None:
            row = int(self._rows[row])
        values = self._table.row(row)
        if self._decodes:
            return {
                name: _decoded(self._table.features[name], value, f"{name!r} of row {row}")
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
        """Return some rows as columns, in the order asked and as often as asked.

        Args:
            rows: Row numbers ``(B,)``.
            features: The columns wanted; all of them by default.

        Raises:
            RowNotFoundError: A row that does not exist.
            FeatureNotFoundError: A feature that does not exist.
        """
        wanted = self._checked_rows(rows)
        if self._rows is not None:
            wanted = self._rows[wanted]
        return self._finished(self._table.gather(wanted, self._checked_names(features)))

    def slice(
        self, start: int, count: int, *, features: str | Iterable[str] | None = None
    ) -> Batch:
        """Return ``count`` rows from ``start`` on as columns; see `take`."""
        if start < 0 or count < 0 or start + count > self._length:
            raise RowNotFoundError(
                f"Rows {start} to {start + count - 1} do not all exist: "
                f"there are {self._length} rows{self._place()}."
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
        """Give all rows as batches; see `take`.

        Args:
            batch_size: Rows of each batch; the last may have fewer.
            shuffle: Whether to give the rows in random order.
            seed: Makes the order the same every time; without it, it is another every time.
            drop_last: Whether to leave out a last batch that has fewer rows.
            features: The columns wanted; all of them by default.
        """
        if batch_size < 1:
            raise ValueError(f"A batch has at least one row, not {batch_size}.")
        names = self._checked_names(features)
        stop = self._length - self._length % batch_size if drop_last else self._length
        spans = ((start, min(start + batch_size, stop)) for start in range(0, stop, batch_size))
        if not shuffle:
            return (self.slice(start, end - start, features=names) for start, end in spans)
        order = np.random.default_rng(seed).permutation(self._length)
        return (self.take(order[start:end], features=names) for start, end in spans)

    def decoded(self) -> Store:
        """Return a view of the same rows whose images are arrays.

        An image is ``(height, width, channels)``, with one channel or three; a column of images is
        a list, since they may differ in size. See `roboreel.image.decode_image`.
        """
        return Store(self._origin, self._table, self._rows, decodes=True)

    def select(self, rows: ArrayLike) -> Store:
        """Return a view of some rows, in the order given; nothing is read.

        Raises:
            RowNotFoundError: A row that does not exist.
        """
        chosen = self._checked_rows(rows)
        if self._rows is not None:
            chosen = self._rows[chosen]
        chosen.flags.writeable = False
        return Store(self._origin, self._table, chosen, decodes=self._decodes)

    def split(self, *, test: float = 0.1, seed: int | None = 0) -> tuple[Store, Store]:
        """Return two views that share no row: the larger for training, the other for testing.

        Args:
            test: The fraction of rows that the second view holds, at random; both keep the order.
            seed: Makes the choice the same every time; None for another every time.
        """
        if not 0 <= test <= 1:
            raise ValueError(f"A fraction lies between 0 and 1, this is {test}.")
        is_test = np.zeros(self._length, bool)
        order = np.random.default_rng(seed).permutation(self._length)
        is_test[order[: round(test * self._length)]] = True
        return self.select(np.flatnonzero(~is_test)), self.select(np.flatnonzero(is_test))

    def close(self) -> None:
        """Let go of the files, for all views too; reading opens them again."""
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
            name: _decoded_column(self._table.features[name], column, repr(name))
            for name, column in batch.items()
        }

    def _checked_rows(self, rows: ArrayLike) -> NDArray[np.int64]:
        wanted = whole_numbers(rows, "Rows")
        outside = (wanted < -self._length) | (wanted >= self._length)
        if outside.any():
            raise self._no_row(int(wanted[outside][0]))
        wanted[wanted < 0] += self._length
        return wanted

    def _checked_names(self, features: str | Iterable[str] | None) -> Items[str]:
        if features is None:
            return tuple(self._table.features)
        names = (features,) if isinstance(features, str) else tuple(features)
        for name in names:
            if name not in self._table.features:
                there = ", ".join(map(repr, self._table.features))
                raise FeatureNotFoundError(
                    f"There is no feature {name!r}: there are {there}{self._place()}."
                )
        return names

    def _no_row(self, row: int) -> RowNotFoundError:
        there = f"{self._length} rows, 0 to {self._length - 1}," if self._length else "no rows"
        return RowNotFoundError(f"Row {row} does not exist: there are {there}{self._place()}.")

    def _place(self) -> str:
        return f" in {self._origin}"


def _reopen(origin: Origin, rows: NDArray[np.int64] | None, decodes: bool) -> Store:
    return Store(origin, origin.open(), rows, decodes=decodes)


def _decoded(feature: FeatureType, value: Any, place: str) -> Any:  # noqa: ANN401  # a value of any kind
    match feature:
        case _ if value is None:
            return None
        case Image():
            return _decoded_image(value, place)
        case Struct(fields):
            return {
                name: _decoded(of, value[name], f"{name!r} in {place}")
                for name, of in fields.items()
            }
        case Sequence(Image() | Struct() | Sequence() as of):
            return _decoded_column(of, value, place)
        case _:
            return value


def _decoded_column(feature: FeatureType, column: Any, place: str) -> Any:  # noqa: ANN401  # of any kind
    if isinstance(feature, Struct) and isinstance(column, dict):
        return {
            name: _decoded_column(of, column[name], f"{name!r} in {place}")
            for name, of in feature.fields.items()
        }
    if isinstance(column, list):
        return [
            _decoded(feature, value, f"value {number} of {place}")
            for number, value in enumerate(column)
        ]
    return column


def _decoded_image(encoded: bytes, place: str) -> NDArray[Any]:
    try:
        return decode_image(encoded)
    except CorruptFileError as error:
        raise CorruptFileError(f"An image, {place}: {error}") from error
