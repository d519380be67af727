"""Some rows of many pages of numbers, decoded together.

pyarrow decodes whole row groups, one after another. Of a page of numbers only the rows of a window
are needed, and one NumPy step serves all windows of a batch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.storage.extents.cursor import words_of
from roboreel.storage.extents.levels import decode_hybrid
from roboreel.storage.small_groups.number_pages import UNFAMILIAR
from roboreel.storage.small_groups.runs import decode_runs, ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.storage.small_groups.blocks import Blocks
    from roboreel.storage.small_groups.number_pages import Form

__all__ = ["decode_rows", "find_values"]

_LENGTH_BYTES = 4
# Levels are mostly the same from page to page. Those that are longer are not kept.
_MOST_KEPT_BYTES = 4096


def find_values(page: bytes, form: Form, num_rows: int) -> int:
    """Return where the values begin in an unpacked page, after the levels.

    The caller has checked that the number of values is reasonable.

    Returns:
        `UNFAMILIAR` unless every row has as many numbers, and none is null.
    """
    count, position = num_rows * form.items, 0
    for highest, is_alright, detail in (
        (form.max_repetition, _are_equal_lists, form.items),
        (form.max_definition, _are_all_there, form.max_definition),
    ):
        if highest:
            begin = position + _LENGTH_BYTES
            position = begin + int.from_bytes(page[position:begin], "little")
            levels = page[begin:position]
            look = is_alright if len(levels) <= _MOST_KEPT_BYTES else is_alright.__wrapped__
            if position > len(page) or not look(levels, count, detail):
                return UNFAMILIAR
    return position


@lru_cache(maxsize=512)
def _are_equal_lists(levels: bytes, count: int, items: int) -> bool:
    """Whether repetition levels are those of lists of some items."""
    try:
        found = decode_hybrid(levels, 1, count).reshape(-1, items)
    except CorruptFileError:
        return False
    return bool((found[:, 0] == 0).all() and (found[:, 1:] == 1).all())


@lru_cache(maxsize=512)
def _are_all_there(levels: bytes, count: int, highest: int) -> bool:
    """Whether definition levels are those of values of which none is null."""
    try:
        return bool((decode_hybrid(levels, highest.bit_length(), count) == highest).all())
    except CorruptFileError:
        return False


def decode_rows(
    form: Form,
    pages: Blocks,
    dictionaries: Blocks,
    values_at: NDArray[np.int64],
    span: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[Any] | None:
    """Return some rows of each page, one after another, ``(N, items)``.

    Args:
        form: How the pages store them.
        pages: For each span of rows, its page, unpacked.
        dictionaries: And its dictionary, in the same bytes; empty if it has none.
        values_at: Where the values begin in each page.
        span: Which rows of each page: the first, and the one after the last.

    Returns:
        None if a page is damaged.
    """
    first, last = (rows * form.items for rows in span)
    in_dictionary = dictionaries.stop > dictionaries.start
    numbers = np.empty(int((last - first).sum()), form.dtype)
    offset = np.cumsum(last - first) - (last - first)
    for chosen, decode in ((in_dictionary, _look_up), (~in_dictionary, _copy)):
        if not chosen.any():
            continue
        at = (pages.start + values_at)[chosen]
        some = decode(
            form.dtype,
            pages.part(chosen),
            dictionaries.part(chosen),
            at,
            first[chosen],
            last[chosen],
        )
        if some is None:
            return None
        if chosen.all():
            numbers = some
        else:
            numbers[ranges(offset[chosen], (last - first)[chosen])] = some
    return numbers.reshape(-1, form.items)


def _look_up(
    dtype: np.dtype[Any],
    pages: Blocks,
    dictionaries: Blocks,
    at: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
) -> NDArray[Any] | None:
    if (at >= pages.stop).any():
        return None
    words = words_of(pages.data)
    width = (words[np.minimum(at, len(words) - 1)] & np.uint64(255)).view(np.int64)
    positions, sound = decode_runs(words, at + 1, pages.stop, width, (first, last))
    if not sound.all():
        return None
    # Dictionaries come before pages, and their lengths are multiples of a value's.
    values = pages.data[: int(dictionaries.stop.max())].view(dtype)
    positions += np.repeat(dictionaries.start // dtype.itemsize, last - first)
    if (positions >= np.repeat(dictionaries.stop // dtype.itemsize, last - first)).any():
        return None
    return values[positions]


def _copy(
    dtype: np.dtype[Any],
    pages: Blocks,
    _dictionaries: Blocks,
    at: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
) -> NDArray[Any] | None:
    size = dtype.itemsize
    if (at + last * size > pages.stop).any():
        return None
    begin, end = (at + first * size).tolist(), (at + last * size).tolist()
    data = pages.data
    parts = [data[a:b].tobytes() for a, b in zip(begin, end, strict=True)]
    return np.frombuffer(b"".join(parts), dtype)
