"""A Parquet file read by columns: tables of metadata."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.errors import CorruptFileError
from roboreel.io.budget import process_budget
from roboreel.parquet.arrow_types import is_numeric, plain_numbers
from roboreel.parquet.ragged import TextLists
from roboreel.parquet.reader import ParquetReader, parquet_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


# Metadata may take this part of the budget as Arrow values, and as Python's, which are larger.
_ARROW_SHARE, _PYTHON_SHARE = 4, 32
_LEAST_LIMIT_BYTES = 2**21


@contextmanager
def open_parquet(path: Path, only: Callable[[str], bool] | None = None) -> Iterator[ParquetTable]:
    """Yield a Parquet file, open for reading whole columns.

    Args:
        path: The file.
        only: Whether a column of this name may be read. Others may be missing from the table, which
            makes files with thousands of row groups faster to open.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a readable Parquet file.
    """
    table = ParquetTable(path, only)
    try:
        yield table
    finally:
        table.close()


class ParquetTable:
    """An open Parquet file, whose columns are read on demand."""

    def __init__(self, path: Path, only: Callable[[str], bool] | None = None) -> None:
        self._path = path
        self._held: dict[str, Any] = {}
        self._reader = ParquetReader(path, only)
        self.column_names: list[str] = self._reader.names
        self.num_rows: int = self._reader.metadata.num_rows

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()

    def numbers(self, names: Iterable[str], *, null: int = -1) -> dict[str, NDArray[Any]]:
        """Return columns of numbers; nulls become ``null`` among integers and NaN among floats."""
        table = self._read(list(names))
        for field in table.schema:
            if not is_numeric(field.type):
                raise CorruptFileError(
                    f"Column {field.name!r} holds {field.type}, not numbers: {str(self._path)!r}."
                )
        return {name: _numbers(table.column(name), null) for name in table.column_names}

    def texts(self, name: str) -> list[str]:
        """Return a column of strings; nulls become empty strings."""
        column = self._read([name]).column(name)
        with parquet_errors(self._path):
            return ["" if text is None else str(text) for text in column.to_pylist()]

    def text_lists(self, name: str) -> TextLists:
        """Return a column of lists of strings."""
        column = self._read([name]).column(name)
        with parquet_errors(self._path):
            return TextLists.from_arrow(column)

    def arrays(self, names: Iterable[str]) -> dict[str, list[Any]]:
        """Return columns of lists as nested Python lists; slow, for metadata only."""
        table = self._read(list(names), _PYTHON_SHARE)
        with parquet_errors(self._path):
            return {name: table.column(name).to_pylist() for name in table.column_names}

    def row(self, place: int, names: Iterable[str]) -> dict[str, Any]:
        """Return columns of one row as plain Python values; only its row group is read."""
        bounds = self._reader.bounds
        group = int(np.searchsorted(bounds, place, side="right")) - 1
        table = self._read(list(names), _PYTHON_SHARE, groups=[group])
        with parquet_errors(self._path):
            return {
                name: table.column(name)[place - bounds[group]].as_py()
                for name in table.column_names
            }

    def prefetch(self, names: Iterable[str]) -> None:
        """Read columns together, before they are asked for one by one: one visit per row group."""
        wanted = [name for name in names if name in self.column_names]
        table = self._read(wanted)
        self._held = {name: table.select([name]) for name in wanted}

    def _read(
        self, names: list[str], share: int = _ARROW_SHARE, *, groups: Sequence[int] | None = None
    ) -> Any:  # noqa: ANN401  # pyarrow is untyped
        if all(name in self._held for name in names):
            columns = [self._held[name].column(0) for name in names]
            return pa.table(columns, names=names)
        self._reader.check_names(names)
        every = range(len(self._reader.bounds) - 1)
        return self._reader.read(every if groups is None else groups, names, _limit_bytes(share))


def _limit_bytes(share: int) -> int:
    return max(process_budget().limit_bytes // share, _LEAST_LIMIT_BYTES)


def _numbers(column: Any, null: int) -> NDArray[Any]:  # noqa: ANN401  # pyarrow is untyped
    parts = [_chunk_numbers(chunk, null) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _chunk_numbers(chunk: Any, null: int) -> NDArray[Any]:  # noqa: ANN401  # pyarrow is untyped
    if chunk.null_count:
        missing = np.nan if pa.types.is_floating(chunk.type) else null
        return np.array([missing if value is None else value for value in chunk.to_pylist()])
    return plain_numbers(chunk)
