"""The footer of a Parquet file, narrowed to some columns before pyarrow parses it.

pyarrow makes an object of every column in every row group. A table of 100,000 episodes in groups
of ten, with statistics of every feature, has a million of them, of which opening needs a tenth.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import ge
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.chunks import read_spans, spelled_path
from roboreel.parquet.extents.thrift import BINARY, LIST, STRUCT
from roboreel.parquet.footer_head import leaves_of, read_head, trees_of
from roboreel.parquet.thrift_writer import i32, i64, list_of, struct
from roboreel.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from roboreel.parquet.extents.chunks import ChunkSpans
    from roboreel.parquet.footer_head import Leaf


LARGE_FOOTER_BYTES = 2**17
"""Smaller footers are parsed as they are."""
# Fields of Parquet's FileMetaData and SchemaElement.
_VERSION, _SCHEMA, _NUM_ROWS, _ROW_GROUPS = 1, 2, 3, 4
_NAME, _NUM_CHILDREN = 4, 5
_PLAIN = 0


@dataclass(frozen=True, slots=True, eq=False)
class NarrowFooter:
    """A footer with some columns of a file, whose offsets are those of the file."""

    data: bytes
    spans: dict[str, ChunkSpans]
    """Where the parts of each leaf lie, by its path."""


def narrow_footer(
    footer: bytes, wanted: Callable[[str], bool], file_bytes: int
) -> NarrowFooter | None:
    """Return a footer with some of a file's columns.

    Statistics, the user's metadata and Arrow's own schema are left out.

    Args:
        footer: The footer, as it is in the file.
        wanted: Whether a column of this name is needed.
        file_bytes: How large the file is.

    Returns:
        None if the footer is small, or has a form that only pyarrow can judge.
    """
    if len(footer) < LARGE_FOOTER_BYTES:
        return None
    try:
        return _narrow(footer, wanted, file_bytes)
    except (CorruptFileError, IndexError, KeyError, UnicodeDecodeError):
        return None  # pyarrow says what is wrong with it.


def parse_footer(footer: bytes) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return a footer as pyarrow parses it."""
    whole = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    return pq.read_metadata(pa.BufferReader(whole))


def _narrow(footer: bytes, wanted: Callable[[str], bool], file_bytes: int) -> NarrowFooter | None:
    head = read_head(footer)
    num_rows, count = head.num_rows, head.num_groups
    kept = [tree for tree in trees_of(head.elements) if wanted(tree[0].name)]
    columns: list[list[bytes]] = []
    all_spans: dict[str, ChunkSpans] = {}
    rows, places = None, [0] * count
    for leaf in (leaf for tree in kept for leaf in leaves_of(tree)):
        places = _places(footer, spelled_path(leaf.path), places)
        read = read_spans(footer, places, file_bytes)
        if read is None:
            return None
        spans, ends = read
        if leaf.is_flat:
            rows = spans.num_values.tolist()
        all_spans[".".join(leaf.path)] = spans
        columns.append(_chunks(footer, leaf, places, ends.tolist()))
    if rows is None or sum(rows) != num_rows:
        return None
    root = struct({_NAME: (BINARY, b"\x06schema"), _NUM_CHILDREN: i32(len(kept))})
    schema = list_of([root, *((STRUCT, element.data) for tree in kept for element in tree)])
    fields = {_VERSION: i32(2), _SCHEMA: schema, _NUM_ROWS: i64(num_rows)}
    groups = LIST, b"\xfc" + encode_varint(count) + b"".join(_row_groups(columns, rows))
    return NarrowFooter(struct(fields | {_ROW_GROUPS: groups})[1], all_spans)


def _places(footer: bytes, needle: bytes, after: Sequence[int]) -> list[int]:
    """Return where a leaf's path ends in each row group, given that of the leaf before it."""
    if not any(after):  # The first leaf: all descriptions of it there are.
        places, position = [], 0
        while (found := footer.find(needle, position)) >= 0:
            position = found + len(needle)
            places.append(position)
    else:
        # A row group lists its columns in the order of the schema, so this looks at each byte once.
        places = [footer.find(needle, start) + len(needle) for start in after]
    limits = [*places[1:], len(footer)]
    if len(places) != len(after) or any(map(ge, places, limits)):
        raise CorruptFileError("The footer does not say where a column lies")
    return places


def _chunks(footer: bytes, leaf: Leaf, places: Sequence[int], ends: Sequence[int]) -> list[bytes]:
    """Return the descriptions of a leaf in all row groups, without statistics."""
    _, encodings = list_of([i32(_PLAIN)])
    before = b"\x26\x00\x1c\x15" + i32(leaf.physical_type)[1] + b"\x19" + encodings
    before += spelled_path(leaf.path)
    return [before + footer[a:b] + b"\0\0" for a, b in zip(places, ends, strict=True)]


def _row_groups(columns: Sequence[Sequence[bytes]], rows: Sequence[int]) -> Iterator[bytes]:
    count = len(columns)
    header = b"\x19" + (
        bytes([count << 4 | STRUCT]) if count < 15 else b"\xfc" + encode_varint(count)
    )
    ends = {num: b"\x16\x00\x16" + i64(num)[1] + b"\0" for num in set(rows)}
    for chunks, num_rows in zip(zip(*columns, strict=True), rows, strict=True):
        yield header + b"".join(chunks) + ends[num_rows]
