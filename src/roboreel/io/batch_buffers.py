"""Memory for large batches, reused once a batch is freed."""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections import defaultdict, deque
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.forking import after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import DTypeLike, NDArray

    from roboreel.io.budget import Budget

_OWNER = "batch buffers"
# Where arrays begin, for vector instructions.
_ALIGNMENT = 64
# Smaller arrays are of NumPy's own making: no image is worth converting in place.
_LEAST_ALIGNED_BYTES = 2**12
# Smaller arrays come from the allocator's heap, which stays mapped.
_LEAST_BYTES = 2**18
# Blocks of one size that are kept for reuse: two cameras of the batches that are read at a time.
_MOST_WAITING = 32
# After so many blocks came back, the most that was in use before them is forgotten.
_PERIOD = 1024


class BatchBuffers:
    """Makes arrays like `numpy.empty`, from the memory of earlier batches where possible.

    The allocator returns large blocks to the system, which then clears every page of the next one.
    Here a block is kept under the byte budget once no array, view or tensor refers to it, and is
    reused. Where the budget is full, half as much as batches had in use at a time lately is kept
    beside it, until none is in use: the next batches would take that memory anyway. Safe to use from several
    threads, and after a fork.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._in_use = self._most_in_use = self._spare_bytes = 0
        self._most_lately = self._num_returned = 0
        self._spare: list[NDArray[np.uint8]] = []
        self._waiting: defaultdict[int, list[Hashable]] = defaultdict(list)
        """Keys of blocks that the budget holds, by size."""
        self._returned: deque[NDArray[np.uint8]] = deque()
        """Blocks that came back and are not counted yet."""
        self._begin()
        after_fork(self, BatchBuffers._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array with arbitrary contents, for the caller alone while it is in use."""
        dtype = np.dtype(dtype)
        size_bytes = math.prod(shape) * dtype.itemsize
        if size_bytes < _LEAST_BYTES:
            small = size_bytes < _LEAST_ALIGNED_BYTES
            return np.empty(shape, dtype) if small else aligned_empty(shape, dtype)
        block = self._take(size_bytes)
        if block is None:
            block = _make_block(size_bytes)
        # One object per use: views and tensors keep it alive, and its end returns the block.
        lease = (ctypes.c_char * size_bytes).from_buffer(block.data)
        with self._lock:
            self._in_use += size_bytes
            self._most_in_use = max(self._most_in_use, self._in_use)
            self._most_lately = max(self._most_lately, self._in_use)
        weakref.finalize(lease, self._give_back, block).atexit = False
        array: NDArray[Any] = np.frombuffer(memoryview(lease), dtype).reshape(shape)
        return array

    def trim(self) -> None:
        """Return memory beside a full budget to the system: no more batches are expected soon."""
        self._sort_returned()
        with self._lock:
            self._most_in_use = self._in_use
            self._shrink()

    def _take(self, size_bytes: int) -> NDArray[np.uint8] | None:
        """Return a block that waits; None if there is none."""
        self._sort_returned()
        with self._lock:
            for place, block in enumerate(self._spare):
                if block.nbytes == size_bytes:
                    self._spare_bytes -= size_bytes
                    return self._spare.pop(place)
        return self._budget.take_last(self._waiting[size_bytes])

    def _give_back(self, block: NDArray[np.uint8]) -> None:
        # Blocks come back wherever the collector happens to run, also while this thread or another
        # one has the lock of this or of the budget: nothing here may wait.
        self._returned.append(block)
        self._sort_returned()

    def _sort_returned(self) -> None:
        """Keep blocks that came back, here or under the budget; whoever has the lock does it."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                block = self._spare_or_not(self._returned.popleft())
            except IndexError:  # Another thread was faster.
                return
            finally:
                self._lock.release()
            # Without the lock: the budget has one too, and its values may end with it taken.
            if block is not None:
                self._hold(block)

    def _spare_or_not(self, block: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        """Keep a block beside a full budget; return it if the budget is to hold it."""
        self._in_use -= block.nbytes
        self._num_returned += 1
        if self._num_returned % _PERIOD == 0:
            self._most_in_use, self._most_lately = self._most_lately, self._in_use
        # What else is held costs more to make again: decoders, packet tables.
        is_full = self._budget.held_bytes + block.nbytes > self._budget.limit_bytes
        if is_full:
            self._spare.append(block)
            self._spare_bytes += block.nbytes
        if not self._in_use:
            self._most_in_use = 0
        self._shrink()
        return None if is_full else block

    def _hold(self, block: NDArray[np.uint8]) -> None:
        key, waiting = ("batch buffers", next(_numbers)), self._waiting[block.nbytes]
        self._budget.put(key, block, block.nbytes, owner=_OWNER)
        waiting.append(key)
        if len(waiting) > _MOST_WAITING:
            self._budget.drop(waiting.pop(0))

    def _shrink(self) -> None:
        while self._spare and self._spare_bytes > self._most_in_use // 2:
            self._spare_bytes -= self._spare.pop(0).nbytes
        if not self._spare:
            self._spare_bytes = 0


def make_blocks_by(make: Callable[[int], NDArray[np.uint8]]) -> None:
    """Have new blocks of this process made by a function; worker processes share theirs."""
    global _make_block  # a fact about the process
    _make_block = make


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array like `numpy.empty`, which begins at a multiple of 64 bytes."""
    dtype = np.dtype(dtype)
    block = _plain_block(math.prod(shape) * dtype.itemsize)
    return block.view(dtype).reshape(shape)


def _plain_block(size_bytes: int) -> NDArray[np.uint8]:
    memory = np.empty(size_bytes + _ALIGNMENT, np.uint8)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory.data))
    start = -address % _ALIGNMENT
    return memory[start : start + size_bytes]


_make_block: Callable[[int], NDArray[np.uint8]] = _plain_block
_numbers = count()  # Of blocks, in this process: increments in C, so that threads can share it.
