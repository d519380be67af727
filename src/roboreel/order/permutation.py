"""Permutations that are computed, not stored: the number at any place, and the place of any number.

Only 64-bit integer arithmetic is used, no random generator of a library: an order must be the same
on every machine and after every upgrade, or a training run could not be resumed there.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ODD_A = np.uint64(0xBF58476D1CE4E5B9)
_ODD_B = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)

# For more than 64 numbers, six rounds leave no bias that tens of thousands of permutations show.
# For fewer, a row carries little noise for its columns, and it takes sixteen.
_ROUNDS = 6
_ROUNDS_WHEN_SMALL = 16
_SMALL = 64


@lru_cache(maxsize=256)
def make_key(*parts: int) -> NDArray[np.uint64]:
    """Return a read-only key ``(1,)``; other integers give an unrelated key."""
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = scramble(key, np.array([part & _MASK], np.uint64))
    key.flags.writeable = False
    return key


def scramble(key: NDArray[np.uint64], numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 random-looking bits for each number, ``(N,)``; under one key no two are equal."""
    bits = (key ^ numbers) + _GOLDEN
    bits = (bits ^ (bits >> np.uint64(30))) * _ODD_A
    bits = (bits ^ (bits >> np.uint64(27))) * _ODD_B
    return bits ^ (bits >> np.uint64(31))


def permute(places: NDArray[np.int64], size: int, key: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the numbers that stand at some places of a permutation of ``0 … size - 1``.

    Args:
        places: Each in ``[0, size)``, ``(N,)``; places may repeat.
        size: How many numbers are permuted. Memory and time do not depend on it.
        key: Which permutation; one for all places ``(1,)``, or one for each ``(N,)``.

    Returns:
        Numbers in ``[0, size)``, ``(N,)``. Under one key all places have different numbers.
    """
    return _walk(places, size, key, inverse=False)


def unpermute(numbers: NDArray[np.int64], size: int, key: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the places of some numbers: the inverse of `permute`."""
    return _walk(numbers, size, key, inverse=True)


def _walk(
    values: NDArray[np.int64], size: int, key: NDArray[np.uint64], *, inverse: bool
) -> NDArray[np.int64]:
    """Permute the cells of a slightly larger rectangle, until each cell is below ``size``.

    Following a permutation from a value below ``size`` to the next such value is itself a
    permutation of the values below ``size``. Few values need more than one step.
    """
    if size <= 1:
        return np.zeros(values.shape, np.int64)
    height, width = _rectangle(size)
    walked = _feistel(values.astype(np.uint64), height, width, key, inverse=inverse)
    outside = np.flatnonzero(walked >= np.uint64(size))
    while len(outside):
        own_key = key[outside] if len(key) > 1 else key
        walked[outside] = _feistel(walked[outside], height, width, own_key, inverse=inverse)
        outside = outside[walked[outside] >= np.uint64(size)]
    return walked.astype(np.int64)


@lru_cache(maxsize=256)
def _rectangle(size: int) -> tuple[int, int]:
    """Return height and width of an almost square rectangle with few more cells than ``size``.

    Every extra cell is an extra step for some value, and a step costs as much for a small batch as
    for a large one.
    """
    highest = math.isqrt(size - 1) + 1
    heights = range(highest, max(highest * 2 // 3, highest - 64, 2) - 1, -1)
    height = min(heights, key=lambda height: -size % height)
    return height, -(-size // height)


def _feistel(
    cells: NDArray[np.uint64], height: int, width: int, key: NDArray[np.uint64], *, inverse: bool
) -> NDArray[np.uint64]:
    """Permute the cells of a rectangle: rotate every row, then every column, and so on.

    How far a row is rotated depends on the row alone, which the rotation does not change. So it can
    be rotated back, and the rounds in reverse order are the inverse.
    """
    row, column = np.divmod(cells, np.uint64(width))
    rounds = range(_ROUNDS if height * width > _SMALL else _ROUNDS_WHEN_SMALL)
    for number in reversed(rounds) if inverse else rounds:
        round_key = key + np.uint64(number * int(_GOLDEN) & _MASK)
        if number % 2 == 0:
            row = _turn(row, height, _noise(column, round_key), inverse=inverse)
        else:
            column = _turn(column, width, _noise(row, round_key), inverse=inverse)
    return row * np.uint64(width) + column


def _turn(
    places: NDArray[np.uint64], size: int, noise: NDArray[np.uint64], *, inverse: bool
) -> NDArray[np.uint64]:
    """Add 32 bits of noise, scaled to ``[0, size)``, around a circle of ``size`` places."""
    distance = (noise * np.uint64(size)) >> _HALF
    turned = places + (np.uint64(size) - distance if inverse else distance)
    # Beyond the end it goes on from the start; elsewhere the difference wraps to a huge number.
    return np.minimum(turned, turned - np.uint64(size))


def _noise(numbers: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 32 random-looking bits for each number."""
    noise = (numbers + key) * _ODD_A
    noise ^= noise >> _HALF
    noise *= _ODD_B
    noise >>= _HALF
    return noise
