"""Blocks of shared memory that a worker fills, and uses again when they come back."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from roboreel.loading.workers import segments

if TYPE_CHECKING:
    import mmap

    from numpy.typing import NDArray

    from roboreel.loading.workers.segments import Ticket

# Blocks that wait to be used again. More are out at the training process.
_MOST_WAITING = 4


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    number: int
    memory: mmap.mmap
    address: int


class SharedBlocks:
    """Makes blocks of memory that the training process can map too. For a worker process.

    A block whose array is gone waits here for the next batch.
    """

    def __init__(self) -> None:
        self.shortage = ""
        """Why the latest block could not be shared; empty if it could."""
        self.dropped: list[int] = []
        """Blocks that no longer exist; the training process is to forget them."""
        self.tickets: dict[int, Ticket] = {}
        """New blocks that have not been handed over."""
        self._numbers = count()
        self._in_use: dict[int, _Block] = {}
        # Filled by finalizers, which may run at any moment in any thread.
        self._waiting: deque[_Block] = deque()

    def make(self, size_bytes: int) -> NDArray[np.uint8]:
        """Return memory of some size: shared, or plain if no more can be shared."""
        block = self._reuse(size_bytes)
        if block is None:
            try:
                memory, ticket = segments.make(size_bytes)
            except segments.SharedMemoryFullError as error:
                self.shortage = str(error)
                return np.empty(size_bytes, np.uint8)
            number = next(self._numbers)
            self.tickets[number] = ticket
            address = int(np.frombuffer(memory, np.uint8).ctypes.data)
            block = _Block(number, memory, address)
        self._in_use[block.number] = block
        array = np.frombuffer(block.memory, np.uint8, size_bytes)
        weakref.finalize(array, self._take_back, block).atexit = False
        return array

    def find(self, address: int, size_bytes: int) -> tuple[int, int] | None:
        """Return the number of the block in which some bytes lie, and where; None if in none."""
        for block in list(self._in_use.values()):
            start = address - block.address
            if start >= 0 and start + size_bytes <= len(block.memory):
                return block.number, start
        return None

    def size_of(self, number: int) -> int:
        """Return the size of a block that is in use."""
        return len(self._in_use[number].memory)

    def _reuse(self, size_bytes: int) -> _Block | None:
        """Return a block that waits and fits; those too many, or far too large, are dropped."""
        for _ in range(len(self._waiting)):
            block = self._waiting.popleft()
            if size_bytes <= len(block.memory) <= 2 * size_bytes:
                return block
            self._waiting.append(block)
        while len(self._waiting) > _MOST_WAITING:
            block = self._waiting.popleft()
            ticket = self.tickets.pop(block.number, None)
            if ticket is None:
                self.dropped.append(block.number)
            else:
                segments.discard(ticket)
        return None

    def _take_back(self, block: _Block) -> None:
        self._in_use.pop(block.number, None)
        self._waiting.append(block)
