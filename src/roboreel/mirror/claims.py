"""Who fetches which block: one process of a machine, and one thread of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from roboreel.mirror.geometry import runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from roboreel.mirror.locks import RangeLocks

__all__ = ["Claims"]


class Claims:
    """Claims of blocks by their numbers. Those of a process that ends are free at once.

    Locks belong to the process, so threads are told apart by a set.
    """

    def __init__(self, locks: RangeLocks) -> None:
        self._locks = locks
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all claims of this process: a forked child inherits none."""
        self._guard = threading.Lock()
        self._mine: set[int] = set()

    def take(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Claim blocks; return those that nobody else has claimed."""
        with self._guard:
            free = np.array([b for b in blocks.tolist() if b not in self._mine], np.int64)
            taken: list[int] = []
            for run in runs_of(free):
                if self._locks.lock(int(run[0]), len(run)):
                    taken += run.tolist()
                elif len(run) > 1:  # Another process has some of them.
                    taken += [block for block in run.tolist() if self._locks.lock(block, 1)]
            self._mine.update(taken)
        return np.array(taken, np.int64)

    def release(self, blocks: Iterable[int]) -> None:
        """Give up claims."""
        with self._guard:
            mine = sorted(self._mine.intersection(blocks))
            self._mine.difference_update(mine)
            for run in runs_of(np.array(mine, np.int64)):
                self._locks.unlock(int(run[0]), len(run))
