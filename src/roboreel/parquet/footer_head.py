"""The head of a Parquet footer: its schema and its counts, before the row groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.thrift import INT, LIST, Field, list_items, read_struct, struct_fields
from roboreel.varint import decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Fields of Parquet's SchemaElement.
_TYPE, _REPETITION, _NAME, _NUM_CHILDREN = 1, 3, 4, 5
_REQUIRED, _REPEATED = 0, 2
_WANTED = dict.fromkeys((_TYPE, _REPETITION, _NUM_CHILDREN), INT)


class Element(NamedTuple):
    """A node of the schema."""

    name: str
    physical_type: int | None
    """None for a group."""
    repetition: int
    num_children: int
    data: bytes
    """As the footer has it."""


class Leaf(NamedTuple):
    """A leaf column of the schema."""

    path: tuple[str, ...]
    physical_type: int
    is_flat: bool
    """Whether there is one value per row."""


@dataclass(frozen=True, slots=True, eq=False)
class FooterHead:
    """What a footer says before its row groups."""

    elements: list[Element]
    """The schema, depth first, without its root."""
    num_rows: int
    num_groups: int


def read_head(footer: bytes) -> FooterHead:
    """Return the head of a footer; the row groups are not walked.

    Args:
        footer: The footer, or its beginning.

    Raises:
        CorruptFileError: It has another form.
        IndexError: It ends too early.
    """
    if footer[:1] != b"\x15":
        raise CorruptFileError("The footer does not begin with a version.")
    _, position = decode_varint(footer, 1)
    if footer[position : position + 1] != b"\x19":
        raise CorruptFileError("The footer has no schema.")
    items = list_items(footer, Field(LIST, position + 1, len(footer)))
    elements = [_element(footer[item.start : item.stop]) for item in items[1:]]
    position = items[-1].stop if items else position
    if footer[position : position + 1] != b"\x16":
        raise CorruptFileError("The footer does not count its rows.")
    num_rows, position = decode_varint(footer, position + 1)
    if footer[position : position + 1] != b"\x19":
        raise CorruptFileError("The footer has no row groups.")
    count, position = footer[position + 1] >> 4, position + 2
    if count == 15:
        count, _ = decode_varint(footer, position)
    return FooterHead(elements, num_rows >> 1, count)


def trees_of(elements: Sequence[Element]) -> Iterator[list[Element]]:
    """Yield the columns, each with all that is below it, in the order of the schema."""
    position = 0
    while position < len(elements):
        start, open_nodes = position, 1
        while open_nodes and position < len(elements):
            open_nodes += elements[position].num_children - 1
            position += 1
        yield list(elements[start:position])


def leaves_of(tree: Sequence[Element]) -> Iterator[Leaf]:
    """Yield the leaves of a column, in the order of the schema."""
    above: list[tuple[Element, int]] = []
    for element in tree:
        while above and above[-1][1] == 0:
            above.pop()
        if above:
            above[-1] = (above[-1][0], above[-1][1] - 1)
        if element.physical_type is None:
            above.append((element, element.num_children))
            continue
        nodes = [*(node for node, _ in above), element]
        yield Leaf(
            tuple(node.name for node in nodes),
            element.physical_type,
            all(node.repetition != _REPEATED for node in nodes),
        )


@lru_cache(maxsize=1024)  # The files of a table have the same schema.
def _element(data: bytes) -> Element:
    fields = struct_fields(data, 0)
    numbers, _ = read_struct(data, 0, _WANTED)
    name = fields[_NAME]
    length, start = decode_varint(data, name.start)
    return Element(
        data[start : start + length].decode(),
        numbers.get(_TYPE),
        numbers.get(_REPETITION, _REQUIRED),
        numbers.get(_NUM_CHILDREN, 0),
        data,
    )
