"""Columns of a Parquet file as they are, sound or not: for a check, which must not stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError
from roboreel.io.budget import process_budget
from roboreel.io.whole import arrow_file
from roboreel.parquet.arrow_types import is_list, is_numeric, numpy_type, plain_numbers
from roboreel.parquet.bounded import BoundedFile
from roboreel.parquet.dense import plain_array
from roboreel.parquet.nulls import null_rows
from roboreel.parquet.parquet_errors import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["ScannedColumn", "ScannedFile", "join_columns"]

# What is read at once may take this part of the budget: it is there again as an array.
_SHARE = 4
_LEAST_LIMIT_BYTES = 2**21


@dataclass(frozen=True, slots=True, eq=False)
class ScannedColumn:
    """A column of numbers, whatever its type and shape."""

    num_rows: int
    stored: str
    """Its type, in Arrow's words."""
    values: NDArray[Any] | None
    """``(N, …)``, with zeros in place of nulls; None if it holds no numbers or is ragged."""
    nulls: NDArray[np.bool_] | None = None
    """Whether each row is null or has a null inside, ``(N,)``; None if none has."""
    lengths: tuple[int, int] | None = None
    """Of lists with different lengths: the least and the greatest."""

    def rows(self, start: int, stop: int) -> ScannedColumn:
        """Return some of the rows."""
        return ScannedColumn(
            min(stop, self.num_rows) - start,
            self.stored,
            None if self.values is None else self.values[start:stop],
            None if self.nulls is None else self.nulls[start:stop],
            self.lengths,
        )


class ScannedFile:
    """A Parquet file, open for reading columns as they are.

    Args:
        path: The file.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a Parquet file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with parquet_errors(path):
            source = arrow_file(path)
            self._file = pq.ParquetFile(source)
            self._bounded = BoundedFile(path, self._file, source)
            metadata = self._file.metadata
            sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            self.column_names = self._bounded.names
        self.group_bounds = np.cumsum([0, *sizes]).astype(np.int64)
        """Row group ``g`` holds the rows ``[group_bounds[g], group_bounds[g + 1])``."""

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return int(self.group_bounds[-1])

    def close(self) -> None:
        """Let go of the file."""
        self._file.close(force=True)

    def read(self, groups: Sequence[int], names: Sequence[str]) -> dict[str, ScannedColumn]:
        """Return columns of some row groups.

        Raises:
            CorruptFileError: They cannot be read.
        """
        for name in names:
            if self.column_names.count(name) != 1:
                raise CorruptFileError(
                    f"There are {self.column_names.count(name)} columns {name!r}, where one is "
                    f"needed: {str(self.path)!r}."
                )
        table = self._bounded.read(groups, names, _limit_bytes())
        with parquet_errors(self.path):
            return {name: _scan(table.column(name)) for name in names}

    def check_size(self, group: int, name: str) -> None:
        """Raise if a column of a row group cannot be read in parts either.

        Raises:
            TooLargeError: A page of it does not fit in the memory budget.
        """
        self._bounded.piece_rows(group, name, _limit_bytes())

    def read_large(
        self, group: int, names: Sequence[str], num_rows: int
    ) -> Iterator[dict[str, ScannedColumn]]:
        """Yield columns of a row group that is too large to be read at once, part by part.

        Raises:
            CorruptFileError: They cannot be read.
        """
        with parquet_errors(self.path):
            for batch in self._bounded.batches([group], names, num_rows):
                yield {name: _scan(batch.column(name)) for name in names}


def _limit_bytes() -> int:
    return max(process_budget().limit_bytes // _SHARE, _LEAST_LIMIT_BYTES)


def join_columns(first: ScannedColumn, second: ScannedColumn) -> ScannedColumn:
    """Return the rows of two parts of a column, one after the other."""
    num_rows = first.num_rows + second.num_rows
    alike = (
        first.values is not None
        and second.values is not None
        and first.values.shape[1:] == second.values.shape[1:]
    )
    if not alike:
        return ScannedColumn(num_rows, second.stored, None, None, first.lengths or second.lengths)
    values = np.concatenate([c.values for c in (first, second) if c.values is not None])
    if first.nulls is None and second.nulls is None:
        return ScannedColumn(num_rows, second.stored, values)
    nulls = [
        np.zeros(column.num_rows, bool) if column.nulls is None else column.nulls
        for column in (first, second)
    ]
    return ScannedColumn(num_rows, second.stored, values, np.concatenate(nulls))


def _scan(column: Any) -> ScannedColumn:  # noqa: ANN401  # pyarrow is untyped
    array = plain_array(column)
    stored, count = str(array.type), len(array)
    nulls = null_rows(array)
    if nulls is not None:
        array = array.filter(pa.array(~nulls))
    shape: list[int] = []
    while is_list(array.type):
        lengths = _lengths(array)
        if len(lengths) and lengths.min() != lengths.max():
            return ScannedColumn(
                count, stored, None, nulls, (int(lengths.min()), int(lengths.max()))
            )
        shape.append(int(lengths[0]) if len(lengths) else 0)
        array = array.flatten()
    if not is_numeric(array.type):
        return ScannedColumn(count, stored, None, nulls)
    if nulls is None:
        return ScannedColumn(count, stored, plain_numbers(array).reshape(count, *shape))
    values = np.zeros((count, *shape), numpy_type(array.type))
    values[~nulls] = plain_numbers(array).reshape(-1, *shape)
    return ScannedColumn(count, stored, values, nulls)


def _lengths(array: Any) -> NDArray[np.int64]:  # noqa: ANN401
    if pa.types.is_fixed_size_list(array.type):
        return np.full(min(len(array), 1), array.type.list_size, np.int64)
    return np.diff(plain_numbers(array.offsets)).astype(np.int64)
