"""Parquet files read by row group."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError
from roboreel.spans.whole import arrow_file
from roboreel.storage.arrow_types import plain_numbers
from roboreel.storage.dense import dense_numbers, plain_array
from roboreel.storage.parquet_errors import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Feature

__all__ = ["RowGroups"]


class RowGroups:
    """An open Parquet file whose row groups are read when asked for. Thread-safe.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a readable Parquet file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()  # pyarrow's reader serves one thread at a time.
        with parquet_errors(path):
            self._file = pq.ParquetFile(arrow_file(path))
            self.metadata: Any = self._file.metadata
            """The footer as pyarrow parsed it."""
            groups = range(self.metadata.num_row_groups)
            sizes = [self.metadata.row_group(group).num_rows for group in groups]
            columns = range(self.metadata.num_columns)
            self._leaves = [self.metadata.schema.column(column).path for column in columns]
            self._names: list[str] = self._file.schema_arrow.names
        self.bounds: NDArray[np.int64] = np.cumsum([0, *sizes], dtype=np.int64)
        """Row group ``g`` holds the rows ``[bounds[g], bounds[g + 1])`` of the file."""

    def read(self, groups: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
        """Return several columns of some row groups as Arrow arrays, in one go.

        Raises:
            CorruptFileError: There is no such column, or the file is damaged.
        """
        for name in names:
            if name not in self._names:
                raise CorruptFileError(
                    f"{name!r} is described in meta/info.json, but has no column: there are "
                    f"{', '.join(self._names)}, in {str(self.path)!r}."
                )
        with self._lock, parquet_errors(self.path):
            table = self._file.read_row_groups(groups, columns=list(names), use_threads=False)
        return {name: plain_array(table.column(name)) for name in names}

    def read_numbers(
        self, groups: Sequence[int], features: Mapping[str, Feature]
    ) -> dict[str, NDArray[Any]]:
        """Return several features of numbers in some row groups, each ``(N, …)``, in one go.

        Raises:
            MissingValueError: A value is null.
            CorruptFileError: A column does not hold what its feature says, or the file is damaged.
        """
        place = self.describe(groups[0])
        return {
            name: dense_numbers(name, column, features[name], place=place)
            for name, column in self.read(groups, list(features)).items()
        }

    def has_column(self, name: str) -> bool:
        """Return whether there is a column of this name."""
        return name in self._names

    def has_leaf(self, path: str) -> bool:
        """Return whether there is a leaf of this path, such as ``"camera.bytes"``."""
        return path in self._leaves

    def has_values(self, name: str) -> bool:
        """Return whether there is a column of this name that is not nested."""
        return name in self._names and name in self._leaves

    def integers(self, group: int, name: str) -> NDArray[np.int64]:
        """Return a column of integers in a row group; a null is -1."""
        stored = self.read([group], [name])[name]
        if stored.type != pa.int64():
            with parquet_errors(self.path):
                stored = stored.cast(pa.int64())
        return plain_numbers(stored.fill_null(-1) if stored.null_count else stored)

    def extremes(self, group: int, name: str) -> tuple[Any, Any] | None:
        """Return the smallest and the largest value of a column; None if they are not stored."""
        leaf = self._leaves.index(name)
        statistics = self.metadata.row_group(group).column(leaf).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        return statistics.min, statistics.max

    def describe(self, group: int) -> str:
        """Return the words for a row group in an error."""
        return f"row group {group} of {str(self.path)!r}"
