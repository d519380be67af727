"""Texts of many small dictionaries, most of which are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.distinct import distinct
from roboreel.storage.ragged import TextLists

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.storage.small_groups.blocks import Blocks

__all__ = ["look_up_texts"]

_LENGTH_BYTES = 4


def look_up_texts(
    dictionaries: Blocks, positions: NDArray[np.int64], counts: NDArray[np.int64]
) -> TextLists | None:
    """Return a list of one text for each row.

    Args:
        dictionaries: The dictionary of each row group, as Parquet stores byte strings.
        positions: Positions of the texts in them, ``(rows,)``.
        counts: Rows of each row group.

    Returns:
        None if a dictionary is damaged, or has texts that are not used.
    """
    numbers: dict[bytes, int] = {}
    data = dictionaries.data
    spans = zip(dictionaries.start.tolist(), dictionaries.stop.tolist(), strict=True)
    kinds = [numbers.setdefault(data[a:b].tobytes(), len(numbers)) for a, b in spans]
    parsed = [_texts_of(dictionary) for dictionary in numbers]
    texts: dict[str, int] = {}
    codes, sizes = [], []
    for listed in parsed:
        if listed is None:
            return None
        codes += [texts.setdefault(text, len(texts)) for text in listed]
        sizes.append(len(listed))
    kind = np.repeat(np.array(kinds, np.int64), counts)
    size = np.array(sizes, np.int64)
    if (positions >= size[kind]).any():
        return None
    chosen = np.array(codes, np.int64)[(np.cumsum(size) - size)[kind] + positions]
    if len(distinct(chosen)) < len(texts):
        return None
    return TextLists(np.arange(len(chosen) + 1, dtype=np.int64), chosen, tuple(texts))


def _texts_of(dictionary: bytes) -> list[str] | None:
    texts, position = [], 0
    while position < len(dictionary):
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(dictionary[position:start], "little")
        if position > len(dictionary):
            return None
        try:
            texts.append(dictionary[start:position].decode())
        except UnicodeDecodeError:
            return None
    return texts
