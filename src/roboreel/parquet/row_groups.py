"""Parquet files read by row group."""

from __future__ import annotations

import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.errors import CorruptFileError
from roboreel.io.budget import process_budget
from roboreel.io.mapped import changed_file
from roboreel.parquet.arrow_types import plain_numbers
from roboreel.parquet.dense import dense_numbers, plain_array
from roboreel.parquet.open_files import OpenFiles
from roboreel.parquet.parquet_errors import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.parquet.bounded import BoundedFile
    from roboreel.parquet.open_files import ArrowFile
    from roboreel.schema import Feature

__all__ = ["RowGroups"]

_tokens = count()


class RowGroups:
    """A Parquet file whose row groups are read when asked for. Thread-safe.

    Args:
        path: The file.
        files: Opens it, and opens it again when it did not stay in the budget.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a readable Parquet file.
    """

    def __init__(self, path: Path, files: OpenFiles | None = None) -> None:
        self.path = path
        self._files = files or OpenFiles(process_budget())
        self._key = (f"open file {next(_tokens)}",)
        weakref.finalize(self, self._files.drop, self._key).atexit = False
        self._lock = threading.Lock()  # pyarrow's reader serves one thread at a time.
        self.version = self._files.get(self._key, path).version
        """What changes when the file is replaced."""
        with parquet_errors(path):
            metadata = self.metadata
            groups = range(metadata.num_row_groups)
            sizes = [metadata.row_group(group).num_rows for group in groups]
            _check_sizes(sizes, metadata.num_rows, path)
        self._leaves = self._bounded.leaves
        self._names = self._bounded.names
        self.bounds: NDArray[np.int64] = np.cumsum([0, *sizes], dtype=np.int64)
        """Row group ``g`` holds the rows ``[bounds[g], bounds[g + 1])`` of the file."""

    @property
    def metadata(self) -> Any:  # noqa: ANN401  # pyarrow is untyped
        """The footer as pyarrow parsed it."""
        return self._opened.metadata

    @property
    def _bounded(self) -> BoundedFile:
        return self._opened.bounded

    @property
    def _opened(self) -> ArrowFile:
        opened = self._files.get(self._key, self.path)
        if opened.version != self.version:  # It had left the budget, and was opened again.
            raise changed_file(self.path)
        return opened

    def read(self, groups: Sequence[int], names: Sequence[str], limit_bytes: int) -> dict[str, Any]:
        """Return several columns of some row groups as Arrow arrays, in one go.

        Raises:
            CorruptFileError: There is no such column, or the file is damaged.
            TooLargeError: They take more than the limit.
        """
        for name in names:
            self._check_name(name)
        bounded = self._bounded  # Opening it again may wait, which nobody may do with the lock.
        with self._lock:
            table = bounded.read(groups, names, limit_bytes)
        with parquet_errors(self.path):
            columns = {name: plain_array(table.column(name)) for name in names}
        num_rows = sum(int(self.bounds[group + 1] - self.bounds[group]) for group in groups)
        for name, column in columns.items():
            if len(column) != num_rows:
                raise CorruptFileError(
                    f"{name!r} has {len(column):,} values for {num_rows:,} rows, in "
                    f"{self.describe(groups[0])}."
                )
        return columns

    def read_field(self, group: int, name: str, field: str, limit_bytes: int) -> Any:  # noqa: ANN401
        """Return one field of a column of structs in a row group, as an Arrow array.

        Raises:
            CorruptFileError: There is no such column, or the file is damaged.
            TooLargeError: It takes more than the limit.
        """
        self._check_name(name)
        bounded = self._bounded
        with self._lock:
            table = bounded.read([group], [f"{name}.{field}"], limit_bytes)
        with parquet_errors(self.path):
            return plain_array(table.column(name)).field(field)

    def read_numbers(
        self, groups: Sequence[int], features: Mapping[str, Feature], limit_bytes: int
    ) -> dict[str, NDArray[Any]]:
        """Return several features of numbers in some row groups, each ``(N, …)``, in one go.

        Raises:
            MissingValueError: A value is null.
            CorruptFileError: A column does not hold what its feature says, or the file is damaged.
            TooLargeError: They take more than the limit.
        """
        place = self.describe(groups[0])
        return {
            name: dense_numbers(name, column, features[name], place=place)
            for name, column in self.read(groups, list(features), limit_bytes).items()
        }

    def piece_rows(self, group: int, name: str, limit_bytes: int) -> int:
        """Return how many rows of a column fit in a limit; all of a row group, if they do.

        Raises:
            CorruptFileError: There is no such column, or the file is damaged.
            TooLargeError: Not even one row does.
        """
        self._check_name(name)
        bounded = self._bounded
        with self._lock:
            return bounded.piece_rows(group, name, limit_bytes)

    def pieces(self, group: int, name: str, num_rows: int) -> Iterator[Any]:
        """Yield a column of a row group as Arrow arrays of some rows each.

        Raises:
            CorruptFileError: The file is damaged.
        """
        self._check_name(name)
        # Without the lock, which a caller could keep for as long as it likes.
        for piece in self._bounded.pieces(group, name, num_rows):
            yield plain_array(piece)

    def has_column(self, name: str) -> bool:
        """Return whether there is a column of this name."""
        return name in self._names

    def has_leaf(self, path: str) -> bool:
        """Return whether there is a leaf of this path, such as ``"camera.bytes"``."""
        return path in self._leaves

    def has_values(self, name: str) -> bool:
        """Return whether there is a column of this name that is not nested."""
        return self._names.count(name) == 1 and name in self._leaves

    def integers(self, group: int, name: str, num_rows: int) -> Iterator[NDArray[np.int64]]:
        """Yield a column of integers in a row group, some rows at a time; a null is -1.

        Raises:
            CorruptFileError: The column does not hold integers.
        """
        for piece in self.pieces(group, name, num_rows):
            with parquet_errors(self.path):
                stored = piece if piece.type == pa.int64() else piece.cast(pa.int64())
                values = plain_numbers(stored.fill_null(-1) if stored.null_count else stored)
            yield values

    def _check_name(self, name: str) -> None:
        if self._names.count(name) != 1:
            there = "two columns" if name in self._names else "no column"
            raise CorruptFileError(
                f"{name!r} is described in meta/info.json, but has {there}: there are "
                f"{', '.join(self._names)}, in {str(self.path)!r}."
            )

    def extremes(self, group: int, name: str) -> tuple[Any, Any] | None:
        """Return the smallest and the largest value of a column; None if they are not stored."""
        leaf = self._leaves.index(name)
        statistics = self.metadata.row_group(group).column(leaf).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        try:
            return statistics.min, statistics.max
        except (ValueError, OverflowError):  # no text, or no date that Python knows
            return None

    def spans(self, group: int, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return where columns of a row group lie in the file."""
        metadata = self.metadata.row_group(group)
        starts = [f"{name}." for name in names]
        spans = []
        for leaf, path in enumerate(self._leaves):
            if path in names or any(path.startswith(start) for start in starts):
                chunk = metadata.column(leaf)
                first = chunk.data_page_offset
                if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                    first = min(first, chunk.dictionary_page_offset)
                spans.append((first, first + chunk.total_compressed_size))
        return spans

    def describe(self, group: int) -> str:
        """Return the words for a row group in an error."""
        return f"row group {group} of {str(self.path)!r}"


def _check_sizes(sizes: Sequence[int], num_rows: int, path: Path) -> None:
    if min(sizes, default=0) < 0 or sum(sizes) != num_rows:
        raise CorruptFileError(
            f"The file has {num_rows:,} rows, but its row groups have {sum(sizes):,}: "
            f"{str(path)!r}."
        )
