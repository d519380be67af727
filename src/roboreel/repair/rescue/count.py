"""How many rows a page holds if it belongs to a column, and whether it can."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.levels import decode_hybrid
from roboreel.parquet.extents.pages import PLAIN, UNCOMPRESSED, Page, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.io.mapped import MappedFile
    from roboreel.repair.rescue.template import LeafColumn


_MOST_VALUES = 2**26
"""A page that declares more values is not believed. Common writers put 20,000 into one."""
_TEXT_LENGTH_BYTES = 4


def count_rows(file: MappedFile, page: Page, column: LeafColumn, limit_bytes: int) -> int | None:
    """Return how many rows a data page holds; None if it cannot be a page of the column.

    Raises:
        DatasetError: The page does not fit in the memory budget.
    """
    if not page.has_positions and page.encoding not in (*column.encodings, PLAIN):
        return None
    if page.num_values > _MOST_VALUES:
        return None
    try:
        rows, values, body_bytes = _read_levels(file, page, column, limit_bytes)
    except CorruptFileError:
        return None
    if page.num_rows is not None and page.num_rows != rows:
        return None
    fits = page.encoding != PLAIN or _is_plain_size(column, values, body_bytes)
    return rows if fits else None


def is_dictionary_of(file: MappedFile, page: Page, column: LeafColumn, limit_bytes: int) -> bool:
    """Return whether a dictionary page can be one of the column.

    Raises:
        DatasetError: The page does not fit in the memory budget.
    """
    if not _is_plain_size(column, page.num_values, page.unpacked_bytes):
        return False
    try:
        _unpack(file, page, column, limit_bytes)
    except CorruptFileError:
        return False
    return True


def _is_plain_size(column: LeafColumn, values: int, body_bytes: int) -> bool:
    if column.value_bits is None:
        return body_bytes >= values * _TEXT_LENGTH_BYTES
    return body_bytes == (values * column.value_bits + 7) // 8


def _read_levels(
    file: MappedFile, page: Page, column: LeafColumn, limit_bytes: int
) -> tuple[int, int, int]:
    """Return the rows of a page, the values that are not null, and the bytes of the values."""
    unpacked = _unpack(file, page, column, limit_bytes)
    if page.is_version_2:
        levels = file.read(page.body, page.offset - page.body)
        repetitions, definitions = (
            levels[: page.repetition_bytes],
            levels[page.repetition_bytes :],
        )
        rest = len(unpacked)
    else:
        repetitions, at = _prefixed(unpacked, 0, column.max_repetition)
        definitions, at = _prefixed(unpacked, at, column.max_definition)
        rest = len(unpacked) - at
    repeated = _levels(repetitions, column.max_repetition, page.num_values)
    defined = _levels(definitions, column.max_definition, page.num_values)
    if repeated.size and repeated[0] != 0:
        raise CorruptFileError("A page starts in the middle of a row.")
    rows = int(np.count_nonzero(repeated == 0))
    return rows, int(np.count_nonzero(defined == column.max_definition)), rest


def _prefixed(unpacked: bytes, at: int, highest: int) -> tuple[bytes, int]:
    """Return the levels that lie after their length, and the position after them."""
    if highest == 0:
        return b"", at
    start = at + 4
    stop = start + int.from_bytes(unpacked[at:start], "little")
    if stop > len(unpacked):
        raise CorruptFileError("The levels of a page do not fit in it.")
    return unpacked[start:stop], stop


def _levels(data: bytes, highest: int, count: int) -> NDArray[np.int64]:
    levels = decode_hybrid(data, highest.bit_length(), count)
    if levels.size and levels.max() > highest:
        raise CorruptFileError(f"A level is {levels.max()}: {highest} is the highest.")
    return levels


def _unpack(file: MappedFile, page: Page, column: LeafColumn, limit_bytes: int) -> bytes:
    packed = replace(page, codec=column.codec if page.is_packed else UNCOMPRESSED)
    if packed.codec == UNCOMPRESSED and packed.unpacked_bytes != packed.packed_bytes:
        raise CorruptFileError("An uncompressed page has two sizes.")
    return unpack(file, packed, limit_bytes)
