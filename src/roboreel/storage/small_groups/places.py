"""Where a footer describes some columns of thousands of row groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.storage.extents.chunks import spelled_path
from roboreel.storage.extents.cursor import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.spans.mapped import MappedFile
    from roboreel.storage.footer_head import Leaf

__all__ = ["find_places"]

# Descriptions of row groups differ by a few bytes in a hundred: counts and offsets of any length.
_LEAST_STEP = 0.8


def find_places(
    file: MappedFile, leaves: Sequence[Leaf], count: int, start: int, stop: int
) -> NDArray[np.int64] | None:
    """Return where the path of each leaf ends in each row group's description.

    Args:
        file: A Parquet file.
        leaves: Some of its leaves, in the order of the schema.
        count: How many row groups there are.
        start: Where the first of them is described.
        stop: Where the footer ends.

    Returns:
        Offsets in the file, ``(leaves, count)``; None if they are not found one after another.
    """
    needles = [spelled_path(leaf.path) for leaf in leaves]
    firsts = _firsts(file, needles[0], count, (start, stop), _LEAST_STEP)
    if firsts is None:  # Perhaps one was stepped over.
        firsts = _firsts(file, needles[0], count, (start, stop), 0)
    if firsts is None:
        return None
    places = np.empty((len(leaves), count), np.int64)
    places[0] = np.array(firsts, np.int64) + len(needles[0])
    limits = np.array([*firsts[1:], stop], np.int64)
    words = words_of(np.frombuffer(file.view(0, file.size_bytes), np.uint8))
    for leaf, needle in enumerate(needles[1:], start=1):
        if not _find_next(file, words, needle, places[leaf - 1 : leaf + 1], limits):
            return None
    return places


def _find_next(
    file: MappedFile,
    words: NDArray[np.uint64],
    needle: bytes,
    places: NDArray[np.int64],
    limits: NDArray[np.int64],
) -> bool:
    """Find where a path ends in each row group, given where the one before it does.

    Descriptions of a column have few lengths, so that most places are found by trying those.

    Returns:
        Whether it is in every row group.
    """
    before, after = places
    tail = np.uint64(int.from_bytes(needle[-8:], "little"))
    shift = np.uint64(8 * max(0, 8 - len(needle)))
    left, distances = np.arange(len(before)), list[int]()
    while len(left):
        first = int(left[0])
        found = file.find(needle, int(before[first]), int(limits[first]))
        if found < 0:
            return False
        distance = found + len(needle) - int(before[first])
        if distance in distances:
            return False
        distances.append(distance)
        after[left] = before[left] + distance
        ends = words[np.minimum(after[left] - 8, len(words) - 1)] >> shift
        left = left[(ends != tail) | (after[left] >= limits[left])]
    return True


def _firsts(
    file: MappedFile, needle: bytes, count: int, footer: tuple[int, int], least_step: float
) -> list[int] | None:
    """Return where the path of the first leaf begins in each row group."""
    start, stop = footer
    found = file.find(needle, start, stop)
    firsts: list[int] = []
    step = len(needle)
    while found >= 0 and len(firsts) <= count:
        if firsts:
            step = max(len(needle), int((found - firsts[-1]) * least_step))
        firsts.append(found)
        found = file.find(needle, found + step, stop)
    return firsts if len(firsts) == count else None
