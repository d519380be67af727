"""Spans of a file → blocks → requests. Pure: no file is opened.

A file is cut into blocks, which are fetched or not, and its blocks into segments, which are evicted
or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

BLOCK_BYTES = 2**14
"""A GOP of two images has 20 to 60 KB: larger blocks fetch more beside it than it has itself."""
SEGMENT_BLOCKS = 64
SEGMENT_BYTES = SEGMENT_BLOCKS * BLOCK_BYTES
GAP_BYTES = 2**16
"""Blocks this far apart are fetched by one request: see benchmarks/remote.py for others."""
MOST_REQUEST_BYTES = 2**22
"""Longer stretches are fetched by several requests, side by side."""


def count_segments(size_bytes: int) -> int:
    """Return how many segments a file has; an empty one has one too."""
    return max(1, -(-size_bytes // SEGMENT_BYTES))


def blocks_of(spans: Iterable[tuple[int, int]], size_bytes: int) -> NDArray[np.int64]:
    """Return the distinct blocks that hold some spans of a file, in order.

    Examples:
        >>> blocks_of([(40_000, 40_001), (0, 20_000), (5, 5)], 50_000)
        array([0, 1, 2])
    """
    inside = [(max(start, 0), min(stop, size_bytes)) for start, stop in spans]
    ranges = [
        np.arange(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES))
        for start, stop in inside
        if start < stop
    ]
    if not ranges:
        return np.empty(0, np.int64)
    return np.unique(np.concatenate(ranges))


def runs_of(numbers: NDArray[np.int64], gap: int = 0) -> list[NDArray[np.int64]]:
    """Return ascending numbers as runs, in which at most ``gap`` are left out between two.

    Examples:
        >>> [run.tolist() for run in runs_of(np.array([1, 2, 4, 7]), gap=1)]
        [[1, 2, 4], [7]]
    """
    if not len(numbers):
        return []
    return np.split(numbers, np.flatnonzero(np.diff(numbers) > gap + 1) + 1)


def requests_for(
    blocks: NDArray[np.int64], gap_bytes: int = GAP_BYTES, most_bytes: int = MOST_REQUEST_BYTES
) -> list[tuple[int, int]]:
    """Return spans of blocks ``[first, stop)`` to ask for, so that all blocks are fetched.

    Args:
        blocks: What is missing, ascending.
        gap_bytes: How far apart blocks may be that one request fetches.
        most_bytes: How long a request may be.

    Examples:
        >>> requests_for(np.array([0, 1, 3, 40]), gap_bytes=2**14)
        [(0, 4), (40, 41)]
    """
    most = max(1, most_bytes // BLOCK_BYTES)
    requests = []
    for run in runs_of(blocks, gap_bytes // BLOCK_BYTES):
        first, stop = int(run[0]), int(run[-1]) + 1
        requests += [(at, min(at + most, stop)) for at in range(first, stop, most)]
    return requests
