"""Positions in a ring, and draws from it: arithmetic only.

A row counts from the first frame ever added and never starts over; its slot is the remainder by the
ring's capacity. So an older row is a smaller one, and a row tells whether it was overwritten.

All rows held at one moment are less than two turns of the ring apart. A place counts from the start of
the turn in which the oldest of them was written, ``[0, 2 * capacity)``: NumPy takes places from an
array of slots by ``mode="wrap"``, without a division for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Large enough that a million weights have few sums, small enough that reading a block is cheap.
_BLOCK = 256


def slot_spans(start: int, stop: int, capacity: int) -> tuple[tuple[int, int], ...]:
    """Return the one or two spans of slots that hold the rows ``[start, stop)``, oldest first."""
    first = start % capacity
    beyond = first + (stop - start) - capacity
    if beyond <= 0:
        return ((first, first + stop - start),)
    return ((first, capacity), (0, beyond))


def block_sums(weights: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sum of each block of weights; the last block may be short, or empty."""
    whole = len(weights) - len(weights) % _BLOCK
    sums = weights[:whole].reshape(-1, _BLOCK).sum(axis=1, dtype=np.float64)
    return np.append(sums, weights[whole:].sum(dtype=np.float64))


def draw_weighted(
    weights: NDArray[Any],
    sums: NDArray[np.float64],
    count: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Return positions drawn with replacement, each with a chance proportional to its weight.

    Weights change in place between draws, so a tree of sums would be stale: one pass sums blocks,
    then only the drawn blocks are searched.

    Args:
        weights: ``(N,)``, not negative.
        sums: Their `block_sums`, finite and not all zero.
        count: How many to draw.
        generator: The source of randomness.
    """
    sums = np.cumsum(sums)
    targets = np.minimum(generator.random(count) * sums[-1], np.nextafter(sums[-1], 0))
    blocks = np.searchsorted(sums, targets, side="right")
    before = np.where(blocks > 0, sums[blocks - 1], 0.0)
    positions = blocks[:, None] * _BLOCK + np.arange(_BLOCK)
    inside = positions < len(weights)
    held = np.where(inside, weights[np.minimum(positions, len(weights) - 1)], 0)
    running = np.cumsum(held, axis=1, dtype=np.float64)
    # Rounding must not lead past the last positive weight of a block.
    within = np.clip(targets - before, 0, np.nextafter(running[:, -1], 0))
    return np.asarray(blocks * _BLOCK + np.argmax(running > within[:, None], axis=1))
