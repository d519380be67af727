"""The columns of a table in thousands of small row groups, without pyarrow.

pyarrow takes about 10 µs for each column of a row group, however few rows it has: a table of
100,000 episodes in groups of ten takes it seconds. Here one NumPy step serves all row groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.storage.extents.side_by_side import read_spans
from roboreel.storage.footer_head import leaves_of, read_head, trees_of
from roboreel.storage.ragged import TextLists
from roboreel.storage.small_groups.places import find_places
from roboreel.storage.small_groups.values import decode_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from roboreel.spans.mapped import MappedFile
    from roboreel.storage.extents.side_by_side import ChunkSpans
    from roboreel.storage.footer_head import Leaf

__all__ = ["SmallGroups", "read_small_groups"]

# Fewer row groups are read as fast by pyarrow.
_LEAST_GROUPS = 8
_HEAD_BYTES = 2**20
# Arrays of this length stay in the processor's cache, and in the allocator's heap.
_CHUNKS_AT_ONCE = 2**13


@dataclass(frozen=True, slots=True, eq=False)
class SmallGroups:
    """Columns of a table, without a null."""

    num_rows: int
    names: list[str]
    """The columns that were asked for, decoded or not."""
    numbers: dict[str, NDArray[Any]]
    lists: dict[str, TextLists]

    @property
    def decoded(self) -> set[str]:
        """The columns that are there."""
        return {*self.numbers, *self.lists}


def read_small_groups(
    file: MappedFile, wanted: Callable[[str], bool], limit_bytes: int
) -> SmallGroups | None:
    """Return the columns of a file that can be decoded side by side.

    Args:
        file: A Parquet file.
        wanted: Whether a column of this name is needed.
        limit_bytes: The most memory that may be taken meanwhile.

    Returns:
        None if the row groups are few, or the footer has a form that only pyarrow can judge.
    """
    stop = file.size_bytes - 8
    length = int.from_bytes(file.read(stop, 4), "little") if stop > 0 else 0
    if not 0 < length <= stop - 4 or file.read(stop + 4, 4) != b"PAR1":
        return None
    try:
        head = read_head(file.read(stop - length, min(length, _HEAD_BYTES)))
    except (CorruptFileError, IndexError, KeyError, UnicodeDecodeError):
        return None
    if head.num_groups < _LEAST_GROUPS:
        return None
    trees = [tree for tree in trees_of(head.elements) if wanted(tree[0].name)]
    names = [tree[0].name for tree in trees]
    leaves = [leaf for tree in trees for leaf in leaves_of(tree)]
    if not leaves or len(set(names)) < len(names):
        return None
    places = find_places(file, leaves, head.num_groups, stop - length + head.stop, stop)
    if places is None:
        return None
    table = SmallGroups(head.num_rows, names, {}, {})
    parts = list(_parts(file, leaves, places, limit_bytes))
    if None in parts or sum(part[0] for part in parts if part) != head.num_rows:
        return None
    for place, leaf in enumerate(leaves):
        values = [part[1][place] for part in parts if part is not None]
        if all(isinstance(value, np.ndarray) for value in values):
            table.numbers[leaf.path[0]] = np.concatenate(values)
        elif all(isinstance(value, TextLists) for value in values):
            table.lists[leaf.path[0]] = TextLists.joined(values)
    return table


def _parts(
    file: MappedFile, leaves: Sequence[Leaf], places: NDArray[np.int64], limit_bytes: int
) -> Iterator[tuple[int, list[Any]] | None]:
    """Yield the rows and the values of some row groups at a time; None if one is unfamiliar."""
    step = max(1, _CHUNKS_AT_ONCE // len(leaves))
    taken = 0
    for first in range(0, places.shape[1], step):
        some = places[:, first : first + step].reshape(-1)
        spans = read_spans(file.view(0, file.size_bytes), some, file.size_bytes)
        rows = None if spans is None else _rows(leaves, spans)
        if spans is None or rows is None:
            yield None
            return
        values = decode_chunks(file, leaves, spans, limit_bytes - taken)
        taken += sum(8 * len(part) for part in values if isinstance(part, np.ndarray))
        counts = spans.num_values.reshape(len(leaves), -1)
        has_one = [np.array_equal(count, rows) for count in counts]
        yield int(rows.sum()), [v if one else None for v, one in zip(values, has_one, strict=True)]


def _rows(leaves: Sequence[Leaf], spans: ChunkSpans) -> NDArray[np.int64] | None:
    """Return the rows of each row group; None if the columns do not agree on them."""
    counts = spans.num_values.reshape(len(leaves), -1)
    flat = [count for leaf, count in zip(leaves, counts, strict=True) if leaf.is_flat]
    if not flat or any((count != flat[0]).any() for count in flat):
        return None
    return flat[0]
