"""The values of many column chunks that have one data page each, none of them null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.distinct import distinct
from roboreel.storage.extents.cursor import words_of
from roboreel.storage.small_groups.blocks import Blocks, first_alike, unpack_blocks
from roboreel.storage.small_groups.pages import read_single_pages
from roboreel.storage.small_groups.runs import decode_runs, ranges, skip_uniform
from roboreel.storage.small_groups.texts import look_up_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.spans.mapped import MappedFile
    from roboreel.storage.extents.side_by_side import ChunkSpans
    from roboreel.storage.footer_head import Leaf
    from roboreel.storage.ragged import TextLists
    from roboreel.storage.small_groups.pages import SinglePages

    _Values = NDArray[Any] | TextLists | None

__all__ = ["decode_chunks"]

# By Parquet's number of a physical type: INT32, INT64, FLOAT, DOUBLE.
_DTYPES = {1: "<i4", 2: "<i8", 4: "<f4", 5: "<f8"}
_BYTE_ARRAY = 6
# Beside the pages, which are there packed and unpacked: positions and values as 64 bits.
_BYTES_PER_VALUE = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Chunks:
    """Chunks of some leaves, leaf by leaf, all ``(leaves * groups,)``."""

    leaves: Sequence[Leaf]
    pages: SinglePages
    spans: ChunkSpans
    num_groups: int

    def of_leaves(self, chosen: NDArray[np.int64]) -> _Chunks:
        places = (chosen[:, None] * self.num_groups + np.arange(self.num_groups)).reshape(-1)
        leaves = [self.leaves[leaf] for leaf in chosen.tolist()]
        return _Chunks(leaves, self.pages.take(places), self.spans.take(places), self.num_groups)

    def by_leaf(self, values: Sequence[int]) -> NDArray[np.int64]:
        """Return a value of each leaf for each of its chunks."""
        return np.repeat(np.array(values, np.int64), self.num_groups)


def decode_chunks(
    file: MappedFile, leaves: Sequence[Leaf], spans: ChunkSpans, limit_bytes: int
) -> list[_Values]:
    """Return the values of some leaves in all row groups.

    Args:
        file: A Parquet file.
        leaves: Some of its leaves.
        spans: Their chunks, ``(leaves * groups,)``, leaf by leaf.
        limit_bytes: The most memory that may be taken meanwhile.

    Returns:
        By leaf, numbers ``(rows,)`` or lists of one text. None if only pyarrow can read the leaf: it has nulls,
        several values in a row, pages of another form, or takes too much.
    """
    data = np.frombuffer(file.view(0, file.size_bytes), np.uint8)
    every = _Chunks(leaves, read_single_pages(data, spans), spans, len(spans.start) // len(leaves))
    found: list[_Values] = [None] * len(leaves)
    chosen = np.flatnonzero(_is_familiar(every))
    chunks = every.of_leaves(chosen)
    blocks = _unpack(file, chunks, limit_bytes) if len(chosen) else None
    if blocks is not None:
        for leaf, values in zip(chosen.tolist(), _decode(chunks, *blocks), strict=True):
            found[leaf] = values
    return found


def _is_familiar(chunks: _Chunks) -> NDArray[np.bool_]:
    """Which leaves have pages of the forms that are decoded here."""
    shape = (len(chunks.leaves), chunks.num_groups)
    num_coded = chunks.pages.in_dictionary.reshape(shape).sum(axis=1)
    num_sound = chunks.pages.sound.reshape(shape).sum(axis=1)
    listed = zip(chunks.leaves, num_coded.tolist(), num_sound.tolist(), strict=True)
    return np.array(
        [
            num_sound == chunks.num_groups
            and num_coded in (0, chunks.num_groups)
            and _is_known(leaf, num_coded > 0)
            for leaf, num_coded, num_sound in listed
        ],
        np.bool_,
    )


def _is_known(leaf: Leaf, in_dictionary: bool) -> bool:
    if leaf.max_definition > 3:
        return False
    if leaf.physical_type == _BYTE_ARRAY:
        return leaf.meaning == "text" and leaf.max_repetition == 1 and in_dictionary
    is_column = leaf.is_flat and len(leaf.path) == 1
    return is_column and leaf.meaning == "plain" and leaf.physical_type in _DTYPES


def _unpack(file: MappedFile, chunks: _Chunks, limit_bytes: int) -> tuple[Blocks, Blocks] | None:
    """Return the data pages and the dictionaries, unpacked."""
    pages, spans = chunks.pages, chunks.spans
    num_bytes = 2 * int(pages.unpacked_bytes.sum() + pages.dictionary_bytes.sum())
    num_bytes += _BYTES_PER_VALUE * int(spans.num_values.sum())
    codecs = distinct(spans.codec).tolist()
    if num_bytes > limit_bytes or len(codecs) != 1:
        return None
    has = np.flatnonzero(pages.in_dictionary)
    start = np.concatenate([pages.start, pages.dictionary_start[has]])
    stop = np.concatenate([spans.stop, pages.dictionary_stop[has]])
    unpacked = np.concatenate([pages.unpacked_bytes, pages.dictionary_bytes[has]])
    alike = first_alike(np.frombuffer(file.view(0, file.size_bytes), np.uint8), start, stop)
    first = np.flatnonzero(alike == np.arange(len(alike)))
    blocks = unpack_blocks(file, start[first], stop[first], unpacked[first], codecs[0])
    if blocks is None:
        return None
    place, count = np.searchsorted(first, alike), len(pages.start)
    start, stop = np.zeros((2, count), np.int64)
    start[has], stop[has] = blocks.start[place[count:]], blocks.stop[place[count:]]
    return blocks.part(place[:count]), Blocks(blocks.data, start, stop)


def _decode(chunks: _Chunks, data: Blocks, dictionaries: Blocks) -> list[_Values]:
    words, counts = words_of(data.data), chunks.spans.num_values
    at, sound = _skip_levels(chunks, words, data.start)
    in_dictionary = chunks.pages.in_dictionary
    stored = np.where(in_dictionary, counts, 0)
    width = (words[np.minimum(at, len(words) - 1)] & np.uint64(255)).view(np.int64)
    positions, is_run = _positions(words, at + 1, data.stop, width, stored)
    sound &= is_run | ~in_dictionary
    bounds = np.concatenate([[0], np.cumsum(stored)])
    values: list[_Values] = []
    for place, leaf in enumerate(chunks.leaves):
        part = slice(place * chunks.num_groups, (place + 1) * chunks.num_groups)
        if not sound[part].all():
            values.append(None)
        elif not in_dictionary[part].all():
            values.append(_plain(leaf, words, at[part], data.stop[part], counts[part]))
        else:
            here = positions[bounds[part.start] : bounds[part.stop]]
            values.append(_look_up(leaf, words, dictionaries.part(part), here, counts[part]))
    return values


def _positions(
    words: NDArray[np.uint64],
    at: NDArray[np.int64],
    stop: NDArray[np.int64],
    width: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return positions in dictionaries; pages that are the same bytes are decoded once."""
    is_new = np.ones(len(at), np.bool_)
    is_new[1:] = (at[1:] != at[:-1]) | (counts[1:] != counts[:-1])
    new = np.flatnonzero(is_new)
    found, sound = decode_runs(words, at[new], stop[new], width[new], (0 * new, counts[new]))
    owner = np.cumsum(is_new) - 1
    begin = np.cumsum(counts[new]) - counts[new]
    return found[ranges(begin[owner], counts)], sound[owner]


def _skip_levels(
    chunks: _Chunks, words: NDArray[np.uint64], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where the values begin in each page, and whether every row has one."""
    at, sound = at.copy(), np.ones(len(at), np.bool_)
    highest = [leaf.max_definition for leaf in chunks.leaves]
    for is_there, level in (
        (chunks.by_leaf([leaf.max_repetition for leaf in chunks.leaves]), 0 * at),
        (chunks.by_leaf(highest), chunks.by_leaf(highest)),
    ):
        some = np.flatnonzero(is_there)
        width = np.where(is_there[some] > 1, 2, 1)
        counts = chunks.spans.num_values[some]
        at[some], sound[some] = skip_uniform(words, at[some], counts, level[some], width)
    return at, sound


def _plain(
    leaf: Leaf,
    words: NDArray[np.uint64],
    at: NDArray[np.int64],
    stop: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[Any] | None:
    dtype = np.dtype(_DTYPES[leaf.physical_type])
    if (stop - at != counts * dtype.itemsize).any():
        return None
    return _load(words, np.repeat(at, counts) + ranges(0 * at, counts) * dtype.itemsize, dtype)


def _look_up(
    leaf: Leaf,
    words: NDArray[np.uint64],
    dictionaries: Blocks,
    positions: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> _Values:
    if leaf.physical_type == _BYTE_ARRAY:
        return look_up_texts(dictionaries, positions, counts)
    dtype = np.dtype(_DTYPES[leaf.physical_type])
    at = np.repeat(dictionaries.start, counts) + positions * dtype.itemsize
    if (at + dtype.itemsize > np.repeat(dictionaries.stop, counts)).any():
        return None
    return _load(words, at, dtype)


def _load(words: NDArray[np.uint64], at: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the numbers at some places."""
    found = words[np.minimum(at, len(words) - 1)]
    return found.astype("<u4").view(dtype) if dtype.itemsize == 4 else found.view(dtype)
