"""Where a file keeps one feature of numbers, if each row group has one page of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roboreel.storage.extents.side_by_side import read_spans
from roboreel.storage.footer_head import leaves_of, read_head, trees_of
from roboreel.storage.small_groups.blocks import skip_preambles
from roboreel.storage.small_groups.pages import read_single_pages
from roboreel.storage.small_groups.places import find_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.schema import Feature
    from roboreel.spans.mapped import MappedFile
    from roboreel.storage.extents.side_by_side import ChunkSpans
    from roboreel.storage.footer_head import Leaf

__all__ = ["PAGE", "UNFAMILIAR", "UNKNOWN", "Form", "NumberPages", "describe_numbers"]

# By Parquet's number of a physical type: INT32, INT64, FLOAT, DOUBLE.
_DTYPES = {1: "<i4", 2: "<i8", 4: "<f4", 5: "<f8"}
UNKNOWN, UNFAMILIAR = -1, -2
_HEAD_BYTES = 2**20

PAGE = np.dtype(
    [
        ("num_rows", np.int64),
        # Where the packed bytes lie in the file, with the length that Snappy puts first.
        ("start", np.int64),
        ("stop", np.int64),
        ("unpacked_bytes", np.int64),
        # The same of the dictionary; nothing if there is none.
        ("dictionary_start", np.int64),
        ("dictionary_stop", np.int64),
        ("dictionary_bytes", np.int64),
        # Where the values begin in the unpacked page: `UNKNOWN` until it is looked at, and
        # `UNFAMILIAR` if only pyarrow can read the row group.
        ("values_at", np.int64),
    ]
)
"""The one data page that a row group has of a feature, and its dictionary."""


class Form(NamedTuple):
    """How a file stores the numbers of a feature."""

    dtype: np.dtype[Any]
    items: int
    """Numbers in a row."""
    codec: int
    """Parquet's number of the compression."""
    max_definition: int
    max_repetition: int


@dataclass(frozen=True, slots=True, eq=False)
class NumberPages:
    """The pages of one feature in all row groups of a file."""

    form: Form
    pages: NDArray[np.void]
    """As `PAGE`, ``(G,)``."""


def describe_numbers(
    file: MappedFile, name: str, feature: Feature, num_rows: NDArray[np.int64]
) -> NumberPages | None:
    """Return where a file keeps a feature of numbers.

    Args:
        file: A Parquet file.
        name: The feature.
        feature: The feature as the metadata declares it.
        num_rows: Rows of each row group.

    Returns:
        None if the file stores it in a form that is left to pyarrow.
    """
    stop = file.size_bytes - 8
    length = int.from_bytes(file.read(stop, 4), "little")
    head = read_head(file.read(stop - length, min(length, _HEAD_BYTES)))
    trees = [tree for tree in trees_of(head.elements) if tree[0].name == name]
    leaves = [leaf for tree in trees for leaf in leaves_of(tree)]
    if len(leaves) != 1 or head.num_groups != len(num_rows):
        return None
    items = math.prod(feature.value_shape)
    is_stored = _DTYPES.get(leaves[0].physical_type) == feature.numpy_dtype.str
    is_flat = len(feature.value_shape) <= 1 and items > 0
    if not (is_stored and is_flat and _is_regular_leaf(leaves[0], items)):
        return None
    places = find_places(file, leaves, head.num_groups, stop - length + head.stop, stop)
    if places is None:
        return None
    spans = read_spans(file.view(0, file.size_bytes), places.reshape(-1), file.size_bytes)
    if spans is None or (spans.codec != spans.codec[0]).any():
        return None
    form = Form(feature.numpy_dtype, items, int(spans.codec[0]), *leaves[0][2:4])
    pages = _pages(file, form, spans, num_rows)
    return None if pages is None else NumberPages(form, pages)


def _is_regular_leaf(leaf: Leaf, items: int) -> bool:
    """Whether a leaf can hold as many numbers in each row."""
    deep = leaf.max_repetition > 1 or leaf.max_definition > 3
    deep |= len(leaf.path) > (3 if leaf.max_repetition else 1)  # A struct, perhaps in a list.
    return leaf.meaning == "plain" and not deep and (items == 1 or leaf.max_repetition == 1)


def _pages(
    file: MappedFile, form: Form, spans: ChunkSpans, num_rows: NDArray[np.int64]
) -> NDArray[np.void] | None:
    data = np.frombuffer(file.view(0, file.size_bytes), np.uint8)
    found = read_single_pages(data, spans)
    fits = (spans.num_values == num_rows * form.items) & (num_rows > 0)
    counted = found.dictionary_count * form.dtype.itemsize
    is_whole = (found.dictionary_count > 0) & (counted == found.dictionary_bytes)
    fits &= ~found.in_dictionary | is_whole
    pages = np.zeros(len(num_rows), PAGE)
    pages["num_rows"] = num_rows
    pages["values_at"] = UNFAMILIAR
    sound = np.flatnonzero(found.sound & fits)
    some = found.take(sound)
    has = np.flatnonzero(some.in_dictionary)
    for start, stop, size in (
        (some.start, spans.stop[sound], some.unpacked_bytes),
        (some.dictionary_start[has], some.dictionary_stop[has], some.dictionary_bytes[has]),
    ):
        if skip_preambles(file, start, stop, size, form.codec) is None:
            return None
    for name, values in (
        ("start", some.start),
        ("stop", spans.stop[sound]),
        ("unpacked_bytes", some.unpacked_bytes),
        ("values_at", UNKNOWN),
    ):
        pages[name][sound] = values
    for name, values in (
        ("dictionary_start", some.dictionary_start[has]),
        ("dictionary_stop", some.dictionary_stop[has]),
        ("dictionary_bytes", some.dictionary_bytes[has]),
    ):
        pages[name][sound[has]] = values
    return pages
