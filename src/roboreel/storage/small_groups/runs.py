"""Parquet's run-length and bit-packing hybrid, of many blocks at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roboreel.storage.extents.cursor import varints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["decode_runs", "ranges", "skip_uniform"]

_WIDEST = 32
_ONE = np.uint64(1)
# As many as one byte of a header can count.
_PACKED_NUMBERS, _PACKED_HEADER = 504, np.uint64(63 << 1 | 1)
_MOST_JUMPED = 256
# Hybrids are looked at so many at a time, to jump over runs.
_JUMPED_AT_ONCE = 1024
# Every run costs a step of Python. Where there are more, pyarrow is faster.
_MOST_RUNS = 512


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its length says, one after another.

    Examples:
        >>> ranges(np.array([5, 0]), np.array([3, 2])).tolist()
        [5, 6, 7, 0, 1]
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def decode_runs(
    words: NDArray[np.uint64],
    at: NDArray[np.int64],
    stop: NDArray[np.int64],
    width: NDArray[np.int64],
    span: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return some numbers of each hybrid, one after another, and which hybrids are sound.

    Those that need more than some hundred runs to be read are not: they are left to others.

    Args:
        words: The bytes that hold them, as `words_of` returns them.
        at: Where each hybrid begins, ``(N,)``.
        stop: Where it ends at the latest.
        width: Bits of its numbers.
        span: Which of its numbers to return: the first, and the one after the last.
    """
    first, last = span
    offset = np.cumsum(last - first) - (last - first)
    numbers = np.zeros(int((last - first).sum()), np.int64)
    sound = (width >= 0) & (width <= _WIDEST)
    at, done = _jump(words, at, width, first)
    parts: list[_Part] = []
    active = np.flatnonzero(sound & (width > 0) & (last > first))
    for _ in range(_MOST_RUNS):
        if not len(active):
            break
        position, its_width, passed = at[active], width[active], done[active]
        header, size = varints(words[np.minimum(position, len(words) - 1)])
        length, is_packed = header >> 1, header & 1
        body = position + size
        end = passed + length * (1 + 7 * is_packed)
        after = body + np.where(is_packed, length * its_width, (its_width + 7) >> 3)
        good = (size > 0) & (size <= 5) & (length > 0) & (after <= stop[active])
        begin = np.maximum(first[active], passed)
        count = np.maximum(np.minimum(last[active], end) - begin, 0) * good
        # All numbers of a run of equal ones lie at the same place.
        step = its_width * is_packed
        bit = body * 8 + (begin - passed) * step
        place = offset[active] + begin - first[active]
        if count.any():
            parts.append(_Part(place, count, bit, step, its_width))
        at[active], done[active] = after, end
        sound[active[~good]] = False
        active = active[good & (end < last[active])]
    sound[active] = False
    if parts:
        _put_numbers(numbers, words, parts)
    return numbers, sound


class _Part(NamedTuple):
    """Numbers that lie at equal distances."""

    place: NDArray[np.int64]
    """Where they go in the result."""
    length: NDArray[np.int64]
    bit: NDArray[np.int64]
    """Where the first of them begins."""
    step: NDArray[np.int64]
    """Bits from one to the next."""
    width: NDArray[np.int64]


def _put_numbers(
    numbers: NDArray[np.int64], words: NDArray[np.uint64], parts: Sequence[_Part]
) -> None:
    every = _Part(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    every = _Part(*(column[every.length > 0] for column in every))
    within = ranges(np.zeros_like(every.length), every.length)
    bits = within * np.repeat(every.step, every.length) + np.repeat(every.bit, every.length)
    found = words[np.minimum(bits >> 3, len(words) - 1)] >> (bits & 7).astype(np.uint64)
    mask = (_ONE << every.width.astype(np.uint64)) - _ONE
    found &= np.repeat(mask, every.length)
    within += np.repeat(every.place, every.length)
    numbers[within] = found.view(np.int64)


def _jump(
    words: NDArray[np.uint64],
    at: NDArray[np.int64],
    width: NDArray[np.int64],
    first: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where to look for the run that holds the first number, and the numbers before it.

    Arrow packs 504 numbers into a run, so that most runs before it need not be walked one by one.
    """
    runs = first // _PACKED_NUMBERS
    most = min(int(runs.max(initial=0)), _MOST_JUMPED)
    if most == 0:
        return at.copy(), np.zeros_like(at)
    run_bytes = 1 + _PACKED_NUMBERS // 8 * width
    alike: NDArray[Any] = np.empty(len(at), np.int64)
    for some in (slice(k, k + _JUMPED_AT_ONCE) for k in range(0, len(at), _JUMPED_AT_ONCE)):
        starts = at[some, None] + np.arange(most) * run_bytes[some, None]
        headers = words[np.minimum(starts, len(words) - 1)] & np.uint64(255)
        packed = np.logical_and.accumulate(headers == _PACKED_HEADER, axis=1)
        alike[some] = packed.sum(axis=1)
    jumped = np.minimum(alike, runs)
    return at + jumped * run_bytes, jumped * _PACKED_NUMBERS


def skip_uniform(
    words: NDArray[np.uint64],
    at: NDArray[np.int64],
    count: NDArray[np.int64],
    level: NDArray[np.int64],
    width: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Step over levels that are all the same, with their length before them.

    Args:
        words: The bytes that hold them.
        at: Where each block of levels begins, ``(N,)``.
        count: How many levels it has.
        level: What all of them are.
        width: Bits of a level, at most 4.

    Returns:
        Where each block ends, and whether it is one run of this level and nothing else.
    """
    last = len(words) - 1
    length = (words[np.minimum(at, last)] & np.uint64(0xFFFFFFFF)).view(np.int64)
    word = words[np.minimum(at + 4, last)]
    header, size = varints(word)
    body = (word >> (np.clip(size, 0, 4) * 8).astype(np.uint64)).view(np.int64)
    is_run = (header & 1 == 0) & (header >> 1 == count) & (length == size + 1)
    is_run &= (body & 255) == level
    # Fewer than eight levels are packed. The same level over and over is a multiple of ones.
    mask = (1 << (np.minimum(count, 8) * width)) - 1
    ones = mask // ((1 << np.maximum(width, 1)) - 1)
    is_packed = (header == 3) & (count <= 8) & (length == size + width)
    is_packed &= (body & mask) == ones * level
    sound = (size > 0) & (size <= 4) & (is_run | is_packed)
    return at + 4 + length, sound
