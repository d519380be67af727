"""Parquet files read by row group, held open under the budget: their footers can be large."""

from __future__ import annotations

import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roboreel.forking import after_fork
from roboreel.io.budget import process_budget
from roboreel.io.heap import return_freed_memory
from roboreel.io.mapped import changed_file
from roboreel.parquet.arrow_types import plain_numbers
from roboreel.parquet.dense import plain_array
from roboreel.parquet.reader import ParquetReader, parquet_errors

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.io.budget import Budget


_OWNER = "open files"
# Footers of a few hundred column parts take about this much while they are parsed.
_OPENING_BYTES = 2**20
# Descriptions of columns are many small allocations, which the C library keeps when they are freed,
# as it keeps row groups and batches. To return them takes about 1 ms.
_FREED_SHARE, _LEAST_FREED_BYTES = 32, 2**21
# Reads free memory too, in each thread's part of the heap.
_CALLS = 16

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


class OpenFiles:
    """Opens files, and holds them under a budget; the one used last is held in any case."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._last: tuple[Hashable, ParquetReader] | None = None
        self._freed_bytes = self._num_calls = 0
        after_fork(self, OpenFiles._after_fork)

    def get(self, key: Hashable, path: Path) -> ParquetReader:
        """Return a file, open.

        Args:
            key: Under which the budget holds it.
            path: Where it lies.
        """
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        opened: ParquetReader | None = self._budget.get(key)
        if opened is None:
            with self._budget.in_hand(_OPENING_BYTES, owner=_OWNER):
                opened = ParquetReader(path)
            self._budget.put(key, opened, opened.size_bytes, owner=_OWNER, survives_fork=False)
            weakref.finalize(opened, self._note_closed, opened.size_bytes).atexit = False
            self.tidy()
        self._last = (key, opened)
        return opened

    def tidy(self) -> None:
        """Return memory of closed files and of past reads to the system, if it may be much."""
        self._num_calls += 1
        if self._num_calls % _CALLS == 0 or self._is_much():
            self._return_freed()

    def note_freed(self, size_bytes: int) -> None:
        """Count memory that was freed, and return it to the system if it is much."""
        self._freed_bytes += size_bytes
        if self._is_much():
            self._return_freed()

    def _is_much(self) -> bool:
        share = self._budget.limit_bytes // _FREED_SHARE
        return self._freed_bytes > max(share, _LEAST_FREED_BYTES)

    def _return_freed(self) -> None:
        self._freed_bytes = 0
        return_freed_memory()
        pa.default_memory_pool().release_unused()

    def _note_closed(self, size_bytes: int) -> None:
        self._freed_bytes += size_bytes

    def drop(self, key: Hashable) -> None:
        """Let go of a file."""
        self._budget.drop(key)
        if self._last is not None and self._last[0] == key:
            self._last = None

    def _after_fork(self) -> None:
        self._last = None
