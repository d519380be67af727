"""Memory for large batches, reused once a batch is freed."""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

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
    reused. Safe to use from several threads, and after a fork.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

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
        weakref.finalize(lease, self._give_back, block).atexit = False
        array: NDArray[Any] = np.frombuffer(memoryview(lease), dtype).reshape(shape)
        return array

    def _waiting(self, size_bytes: int) -> NDArray[np.uint8] | None:
        keys = _keys(size_bytes)
        return next((b for key in keys if (b := self._budget.take(key)) is not None), None)

    def _give_back(self, block: NDArray[np.uint8]) -> None:
        # What else is held costs more to make again: decoders, packet tables.
        if self._budget.held_bytes + block.nbytes > self._budget.limit_bytes:
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
