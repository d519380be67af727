"""Parquet files of frames, read by row group."""

from __future__ import annotations

import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roboreel.io.budget import process_budget
from roboreel.io.mapped import changed_file
from roboreel.parquet.arrow_types import plain_numbers
from roboreel.parquet.dense import plain_array
from roboreel.parquet.open_files import OpenFiles
from roboreel.parquet.parquet_errors import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.parquet.reader import ParquetReader

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
        reader = self._files.get(self._key, path)
        self.version = reader.version
        """What changes when the file is replaced."""
        self.leaves = reader.leaves
        """Paths of the leaves, such as ``"camera.bytes"``."""
        self.names = reader.names
        """Names of the columns."""
        self.bounds: NDArray[np.int64] = reader.bounds
        """Row group ``g`` holds the rows ``[bounds[g], bounds[g + 1])`` of the file."""

    @property
    def reader(self) -> ParquetReader:
        """The file, open."""
        opened = self._files.get(self._key, self.path)
        if opened.version != self.version:  # It had left the budget, and was opened again.
            raise changed_file(self.path)
        return opened

    def rows_at_once(self, groups: Sequence[int], names: Sequence[str], limit_bytes: int) -> int:
        """Return how many rows of columns fit in a limit; all of some row groups, if they do.

        Raises:
            CorruptFileError: There is no such column, or the file is damaged.
            TooLargeError: Not even one row does.
        """
        reader = self.reader
        reader.check_names(names, "is described in meta/info.json")
        return reader.rows_at_once(groups, names, limit_bytes)

    def parts(
        self, groups: Sequence[int], names: Sequence[str], num_rows: int
    ) -> Iterator[dict[str, Any]]:
        """Yield columns of some row groups as Arrow arrays of some rows each.

        Raises:
            CorruptFileError: The file is damaged.
        """
        # Opening it again may wait, which nobody may do with the lock.
        tables = self.reader.parts(groups, names, num_rows)
        while True:
            with self._lock:
                table = next(tables, None)
            if table is None:
                return
            with parquet_errors(self.path):
                columns = {name: plain_array(table.column(name)) for name in names}
            yield columns

    def read_field(self, group: int, name: str, field: str, limit_bytes: int) -> Any:  # noqa: ANN401
        """Return one field of a column of structs in a row group, as an Arrow array.

        Raises:
            CorruptFileError: The file is damaged.
            TooLargeError: It takes more than the limit.
        """
        reader = self.reader
        with self._lock:
            table = reader.read([group], [f"{name}.{field}"], limit_bytes)
        with parquet_errors(self.path):
            return plain_array(table.column(name)).field(field)

    def has_values(self, name: str) -> bool:
        """Return whether there is a column of this name that is not nested."""
        return self.names.count(name) == 1 and name in self.leaves

    def integers(
        self, groups: Sequence[int], name: str, limit_bytes: int
    ) -> Iterator[NDArray[np.int64]]:
        """Yield a column of integers in some row groups, some rows at a time; a null is -1.

        Raises:
            CorruptFileError: The column does not hold integers.
        """
        num_rows = self.rows_at_once(groups, [name], limit_bytes)
        for part in self.parts(groups, [name], num_rows):
            with parquet_errors(self.path):
                stored = part[name].cast(pa.int64())
                values = plain_numbers(stored.fill_null(-1) if stored.null_count else stored)
            yield values

    def describe(self, group: int) -> str:
        """Return the words for a row group in an error."""
        return f"row group {group} of {str(self.path)!r}"
