"""Columns of a Parquet file as they are, sound or not: for a check, which must not stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.io.budget import process_budget
from roboreel.parquet.dense import ScannedColumn, scan_column
from roboreel.parquet.reader import ParquetReader, parquet_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["ScannedColumn", "ScannedFile", "join_columns"]

# What is read at once may take this part of the budget: it is there again as an array.
_SHARE = 4
_LEAST_LIMIT_BYTES = 2**21


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
        self._reader = ParquetReader(path)
        self.column_names = self._reader.names
        self.group_bounds = self._reader.bounds
        """Row group ``g`` holds the rows ``[group_bounds[g], group_bounds[g + 1])``."""

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return int(self.group_bounds[-1])

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()

    def read(self, groups: Sequence[int], names: Sequence[str]) -> dict[str, ScannedColumn]:
        """Return columns of some row groups.

        Raises:
            CorruptFileError: They cannot be read.
        """
        self._reader.check_names(names)
        table = self._reader.read(groups, names, _limit_bytes())
        with parquet_errors(self.path):
            return {name: scan_column(table.column(name)) for name in names}

    def check_size(self, group: int, name: str) -> None:
        """Raise if a column of a row group cannot be read in parts either.

        Raises:
            TooLargeError: A page of it does not fit in the memory budget.
        """
        self._reader.rows_at_once([group], [name], _limit_bytes())

    def read_large(
        self, group: int, names: Sequence[str], num_rows: int
    ) -> Iterator[dict[str, ScannedColumn]]:
        """Yield columns of a row group that is too large to be read at once, part by part.

        Raises:
            CorruptFileError: They cannot be read.
        """
        with parquet_errors(self.path):
            for batch in self._reader.batches([group], names, num_rows):
                yield {name: scan_column(batch.column(name)) for name in names}


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
