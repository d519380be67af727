"""Freed memory that the C library keeps for the next batch."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

# When glibc frees a block of up to 32 MiB, it keeps twice that size from then on.
_BLOCK_BYTES = 32 * 1024**2 - 64 * 1024


@lru_cache(maxsize=1)
def keep_freed_memory() -> None:
    """Make the C library keep up to 64 MB of freed memory instead of returning it to the system.

    By default glibc keeps 128 KB. The 64 pictures of a batch are then returned when the batch is
    freed, and every page of the next batch is mapped and cleared again: 20 of 28 µs for a picture
    of 40 KB. The limit grows with the largest block freed so far, so freeing one untouched block
    raises it. Other C libraries are not affected.
    """
    block = np.empty(_BLOCK_BYTES, np.uint8)
    del block


def return_freed_memory() -> None:
    """Make the C library return freed memory to the system, of all threads; only glibc can."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # Another C library; on Windows there is no None.
        return None
