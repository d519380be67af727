"""Memory for large batches, reused once a batch is freed."""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.forking import after_fork

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from roboreel.memory.budget import Budget

__all__ = ["BatchBuffers", "aligned_empty", "make_blocks_by"]

_OWNER = "batch buffers"
# Where arrays begin, for vector instructions.
_ALIGNMENT = 64
# Smaller arrays are of NumPy's own making: no image is worth converting in place.
_LEAST_ALIGNED_BYTES = 2**12
# Smaller arrays come from the allocator's heap, which stays mapped.
_LEAST_BYTES = 2**20
# Blocks of one size that are kept for reuse: two cameras of the batches that are read at a time.
_MOST_WAITING = 32


class BatchBuffers:
    """Makes arrays like `numpy.empty`, from the memory of earlier batches where possible.

    The allocator returns large blocks to the system, which then clears every page of the next one.
    Here a block is kept under the byte budget once no array, view or tensor refers to it, and is
    reused. Where the budget is full, half as much as batches have in use is kept beside it: the
    next batch would take that memory anyway. Safe to use from several threads, and after a fork.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._in_use = self._spare_bytes = 0
        self._spare: list[NDArray[np.uint8]] = []
        self._begin()
        after_fork(self, BatchBuffers._begin)

    def _begin(self) -> None:
        # Reentrant: blocks come back wherever the collector happens to run.
        self._lock = threading.RLock()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array with arbitrary contents, for the caller alone while it is in use."""
        dtype = np.dtype(dtype)
        size_bytes = math.prod(shape) * dtype.itemsize
        if size_bytes < _LEAST_BYTES:
            small = size_bytes < _LEAST_ALIGNED_BYTES
            return np.empty(shape, dtype) if small else aligned_empty(shape, dtype)
        block = self._waiting(size_bytes)
        if block is None:
            block = _make_block(size_bytes)
        # One object per use: views and tensors keep it alive, and its end returns the block.
        lease = (ctypes.c_char * size_bytes).from_buffer(block.data)
        with self._lock:
            self._in_use += size_bytes
        weakref.finalize(lease, self._give_back, block).atexit = False
        array: NDArray[Any] = np.frombuffer(memoryview(lease), dtype).reshape(shape)
        return array

    def _waiting(self, size_bytes: int) -> NDArray[np.uint8] | None:
        with self._lock:
            for place, block in enumerate(self._spare):
                if block.nbytes == size_bytes:
                    self._spare_bytes -= size_bytes
                    return self._spare.pop(place)
        keys = _keys(size_bytes)
        return next((b for key in keys if (b := self._budget.take(key)) is not None), None)

    def _give_back(self, block: NDArray[np.uint8]) -> None:
        with self._lock:
            self._in_use -= block.nbytes
            # What else is held costs more to make again: decoders, packet tables.
            is_full = self._budget.held_bytes + block.nbytes > self._budget.limit_bytes
            if is_full:
                self._spare.append(block)
                self._spare_bytes += block.nbytes
            while self._spare_bytes > self._in_use // 2:
                self._spare_bytes -= self._spare.pop(0).nbytes
        if is_full:
            return
        # If two threads choose the same key, one block is freed: no harm.
        key = next((key for key in _keys(block.nbytes) if self._budget.get(key) is None), None)
        if key is not None:
            self._budget.put(key, block, block.nbytes, owner=_OWNER)


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


def _keys(size_bytes: int) -> list[tuple[str, int, int]]:
    return [("batch buffers", size_bytes, place) for place in range(_MOST_WAITING)]
