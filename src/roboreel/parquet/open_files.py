"""Parquet files held open under the budget: their footers can be large."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import pyarrow as pa

from roboreel.forking import after_fork
from roboreel.io.heap import return_freed_memory
from roboreel.parquet.reader import ParquetReader

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from roboreel.io.budget import Budget

__all__ = ["OpenFiles"]

_OWNER = "open files"
# Descriptions of columns are many small allocations, which the C library keeps when they are freed,
# as it keeps row groups and batches. To return them takes about 1 ms.
_FREED_SHARE, _LEAST_FREED_BYTES = 32, 2**21
# Reads free memory too, in each thread's part of the heap.
_CALLS = 16


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
