"""Parquet files as pyarrow opened them, held under the budget: footers can be large."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.forking import after_fork
from roboreel.io.heap import return_freed_memory
from roboreel.io.states import version_of
from roboreel.io.whole import arrow_file
from roboreel.parquet.bounded import BoundedFile
from roboreel.parquet.parquet_errors import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from roboreel.io.budget import Budget

__all__ = ["OPEN_FILES", "ArrowFile", "OpenFiles"]

OPEN_FILES = "open files"
"""Their owner, to a user."""

# Measured: 1.2 to 2 KB for the description of a column in a row group, however short it is, and
# 0.3 KB for what `BoundedFile` knows of it.
_FILE_BYTES, _CHUNK_BYTES = 50_000, 1900
# And so many times the length of the footer, before it is known what is in it.
_FOOTER_TIMES = 16
# Descriptions are many small allocations, which the C library keeps when they are freed, as it keeps
# row groups and batches. To return them takes about 1 ms.
_FREED_SHARE, _LEAST_FREED_BYTES = 32, 2**21
# Reads free memory too, in each thread's part of the heap.
_CALLS = 16


class ArrowFile:
    """A Parquet file as pyarrow opened it.

    Args:
        path: The file, for errors.
        source: Its bytes.
        version: What changes when it is replaced.

    Raises:
        CorruptFileError: It is not a readable Parquet file.
    """

    def __init__(self, path: Path, source: Any, version: object = None) -> None:  # noqa: ANN401
        self.version = version
        with parquet_errors(path):
            self.file = pq.ParquetFile(source)
            self.metadata: Any = self.file.metadata
            """The footer as pyarrow parsed it."""
            self.bounded = BoundedFile(path, self.file, source)

    @property
    def size_bytes(self) -> int:
        """Estimate of the memory that this takes."""
        chunks = int(self.metadata.num_row_groups * self.metadata.num_columns)
        return _FILE_BYTES + _CHUNK_BYTES * chunks + int(self.metadata.serialized_size)


class OpenFiles:
    """Opens files, and holds them under a budget; the one used last is held in any case."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._last: tuple[Hashable, ArrowFile] | None = None
        self._freed_bytes = self._num_calls = 0
        after_fork(self, OpenFiles._after_fork)

    def get(self, key: Hashable, path: Path) -> ArrowFile:
        """Return a file, open.

        Args:
            key: Under which the budget holds it.
            path: Where it lies.
        """
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        opened: ArrowFile | None = self._budget.get(key)
        if opened is None:
            with parquet_errors(path):
                version = version_of(path)
                source = arrow_file(path)
                needed = _bytes_to_open(source)
            with self._budget.in_hand(needed, owner=OPEN_FILES):
                opened = ArrowFile(path, source, version)
            self._budget.put(key, opened, opened.size_bytes, owner=OPEN_FILES, survives_fork=False)
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


def _bytes_to_open(source: Any) -> int:  # noqa: ANN401  # pyarrow is untyped
    """Return about how much memory pyarrow takes to open a file, from the length of its footer."""
    size_bytes = int(source.size())
    tail = source.read_at(8, max(0, size_bytes - 8))
    return _FILE_BYTES + _FOOTER_TIMES * min(int.from_bytes(tail[:4], "little"), size_bytes)
