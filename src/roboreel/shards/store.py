"""A shard store as a user has it: what it reads, its views, and new stores made from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.shards.arrow import declare, features_of_schema
from roboreel.shards.columns import Columns
from roboreel.shards.decode import Decoding
from roboreel.shards.derive import BATCH_ROWS, copied, counted, rows_in
from roboreel.shards.origin import MAX_OPEN, GenerationOrigin, TableOrigin
from roboreel.shards.reading import Batch, StoreReader
from roboreel.shards.write import checked_limits, publish_batches, table_of, write_shards

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa
    from typing_extensions import Unpack

    from roboreel.shards.decode import Alpha
    from roboreel.shards.derive import Progress
    from roboreel.shards.reading import Rows
    from roboreel.shards.write import WriteOptions

__all__ = ["Batch", "Store"]


class Store(StoreReader):
    """Rows of mapped shards or of a table in memory, or a view of some of them.

    Rows are numbered from 0; negative numbers count from the end. Results share no memory with the
    store. Stores are thread-safe, survive a fork, and pickle as a path.
    """

    __slots__ = ()

    @classmethod
    def from_table(cls, table: pa.Table, features: Mapping[str, object] | None = None) -> Store:
        """Return a table in memory as a store; nothing is copied.

        Args:
            table: The table. Times are read as NumPy's, in UTC; maps as lists of keys and values;
                dictionaries, views and run lengths as the values they stand for.
            features: The features of columns whose Arrow type does not tell: images, labels,
                arrays.

        Raises:
            FeatureNotFoundError: A declared feature has no column.
            MetadataError: A column has a type that a store cannot hold (decimals, times of day,
                unions, intervals, columns of nulls), or cannot be read as what is declared.
        """
        origin = TableOrigin(table, declare(features_of_schema(table.schema), features))
        return cls([Columns.whole(origin, origin.open())])

    def decoded(
        self,
        *,
        alpha: Alpha = "keep",
        videos: bool = False,
        root: str | os.PathLike[str] | None = None,
    ) -> Store:
        """Return a view of the same rows with images as arrays, decoded on access.

        An image is ``(height, width, channels)``, grey or in colour. A column of images is a list,
        since their sizes may differ. See `roboreel.image.decode_image`.

        Args:
            alpha: What becomes of transparency: ``"keep"`` it as one more channel, ``"drop"`` it,
                or ``"refuse"`` images that have it.
            videos: Whether video paths become arrays ``(T, height, width, 3)`` of all images.
            root: The folder that relative paths of videos start from; by default the working
                directory.
        """
        folder = None if root is None else Path(root)
        return Store(self._columns, self._order, Decoding(alpha, videos, folder))

    def select(self, rows: Rows) -> Store:
        """Return a view of some rows, by number or as a slice, in the order given; reads nothing.

        Raises:
            RowNotFoundError: A row does not exist.
            TypeError: The rows are not whole numbers: fractions, a mask.
        """
        chosen = self._checked_rows(rows).copy()  # The caller's array may change later.
        chosen.flags.writeable = False
        return Store([part.at(chosen) for part in self._columns], self._order, self._decoding)

    def select_shards(self, shards: Iterable[int]) -> Store:
        """Return a view of the rows that lie in some shards, in their order.

        ``store.select_shards(range(rank, store.num_shards, world_size))`` gives each worker files
        of its own.

        Raises:
            ValueError: There is no shard of this number.
        """
        wanted = list(shards)
        there = self._columns[0].table.num_shards
        wrong = next((shard for shard in wanted if not 0 <= shard < there), None)
        if wrong is not None:
            raise ValueError(f"There is no shard {wrong}: there are {there}, in {self._place}.")
        return self.select(np.flatnonzero(np.isin(self._columns[0].shards(), wanted)))

    def filter(
        self,
        keep: Callable[[dict[str, Any]], object],
        *,
        features: str | Iterable[str] | None = None,
    ) -> Store:
        """Return a view of the rows for which a function returns True; reads all rows once.

        Args:
            keep: Called with each row.
            features: One or several feature names: only these are read, and given to ``keep``.
        """
        names = self._checked_names(features)
        kept = np.zeros(len(self), bool)
        for row, values in enumerate(self.select_columns(names)):
            answer = keep(values)
            if not isinstance(answer, bool | np.bool_):
                raise TypeError(f"The filter returned {answer!r} for row {row}: not True or False.")
            kept[row] = answer
        return self.select(np.flatnonzero(kept))

    def select_columns(self, names: str | Iterable[str]) -> Store:
        """Return a view of some features, in the order given; reads nothing."""
        return self._renamed({name: name for name in self._checked_names(names)})

    def remove_columns(self, names: str | Iterable[str]) -> Store:
        """Return a view without some features; reads nothing."""
        gone = self._checked_names(names)
        return self._renamed({name: name for name in self._order if name not in gone})

    def rename_column(self, name: str, new: str) -> Store:
        """Return a view in which a feature has another name; reads nothing."""
        self._checked_names(name)
        if new in self._order and new != name:
            raise ValueError(f"There is already a feature {new!r}: remove it first.")
        return self._renamed({new if own == name else own: own for own in self._order})

    def add_column(self, name: str, values: Iterable[object], feature: object) -> Store:
        """Return a view with one more feature, whose values are held in memory.

        Args:
            name: Its name.
            values: One for each row of this view, as `write_shards` takes them.
            feature: What they are.

        Raises:
            ExampleError: A value does not fit the feature.
            ValueError: There is a feature of this name, or there is not one value for each row.
        """
        if name in self._order:
            raise ValueError(f"There is already a feature {name!r}: remove it first.")
        table = table_of(({name: value} for value in values), {name: feature})
        if table.num_rows != self._length:
            raise ValueError(f"There are {table.num_rows} values for {self._length} rows.")
        added = TableOrigin(table, features_of_schema(table.schema))
        columns = [*self._columns, Columns.whole(added, added.open())]
        return Store(columns, (*self._order, name), self._decoding)

    def map(
        self,
        function: Callable[[dict[str, Any]], Mapping[str, object]],
        path: str | os.PathLike[str],
        *,
        features: Mapping[str, object] | None = None,
        source: Mapping[str, Any] | None = None,
        progress: Progress = False,
        **options: Unpack[WriteOptions],
    ) -> Store:
        """Write what a function makes of each row as a new store, and return it.

        It is published in one step and takes the memory of two batches: see `write_shards`.

        Args:
            function: Called with each row; returns an example.
            path: The folder of the new store.
            features: Its features; by default those of this store.
            source: What the function does, in JSON types. If the folder holds a store of the same
                source, made from the same rows of the same files, that store is returned.
                Otherwise, and without a source, the function is called.
            progress: True prints a bar; a function is called with the rows done and their number.
            **options: ``shard_size``, ``batch_size``, ``overwrite``, ``threads`` and
                ``missing_as_null`` of `write_shards`.
        """
        identity = self.identity
        known = source is not None and identity is not None
        write_shards(
            (function(row) for row in counted(self, len(self), progress)),
            self.features if features is None else features,
            path,
            source={"store": identity, "map": source} if known else None,
            **options,
        )
        return Store([Columns.whole(*GenerationOrigin.newest(Path(path), MAX_OPEN))])

    def flatten(
        self,
        path: str | os.PathLike[str],
        *,
        progress: Progress = False,
        **options: Unpack[WriteOptions],
    ) -> Store:
        """Write the rows of this view, as they are stored, as a new store, and return it.

        Nothing is decoded. The new store is read in sequence and needs no list of rows. It is
        written once: a folder that already holds these rows of the same files is opened.

        Args:
            path: The folder of the new store.
            progress: See `map`.
            **options: ``shard_size``, ``batch_size`` and ``overwrite`` of `write_shards`.
        """
        identity, size = self.identity, options.get("shard_size", "256MB")
        limit_bytes = checked_limits(size, options.get("batch_size", 1))
        rows = min(options.get("batch_size", BATCH_ROWS), rows_in(self, limit_bytes))
        publish_batches(
            lambda: copied(self, rows, progress),
            self.features,
            Path(path),
            source=None if identity is None else {"store": identity, "flatten": True},
            limit_bytes=limit_bytes,
            overwrite=options.get("overwrite", False),
        )
        return Store([Columns.whole(*GenerationOrigin.newest(Path(path), MAX_OPEN))])

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

    def __enter__(self) -> Store:  # noqa: PYI034  # Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self._columns, self._order, self._decoding)

    def _renamed(self, names: Mapping[str, str]) -> Store:
        """Return a view of some features, given their present name by their new one."""
        if not names:
            raise ValueError("A store needs at least one feature.")
        parts = [
            part.named({new: old for new, old in names.items() if old in part.names})
            for part in self._columns
        ]
        # A part without columns is dropped, unless it says how many rows there are.
        kept = [part for part in parts if part.names] or parts[:1]
        return Store(kept, tuple(names), self._decoding)
