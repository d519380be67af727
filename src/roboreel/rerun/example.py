"""What Rerun itself writes, learned from small recordings: we write ours in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rerun.chunk import ChunkStore

from roboreel.rerun.blocks import Block, Kind, make_moments, to_chunk
from roboreel.rerun.columns import ENCODED, POOL, values
from roboreel.rerun.identity import CHUNK_TEXT, IDENTITY_TYPE
from roboreel.rerun.protobuf import nested, number, read_fields
from roboreel.rerun.rrd import CHUNK, END, HEADER_BYTES, LZ4, PLAIN, STORE, UnknownFormError, frames

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ChunkForm", "Example", "chunk_form", "write_example"]

_ARROW = 1


@dataclass(frozen=True, slots=True, eq=False)
class ChunkForm:
    """How chunks of one kind look."""

    schema: Any
    """Of the Arrow batch: the identities of the rows, then the columns."""
    order: list[int]
    """Where each column is among the arrays of a block."""
    head: tuple[bytes, bytes]
    """The schema in bytes, before and after the identity of the chunk in it."""
    is_packed: bool
    """Whether the values are compressed already."""
    facts: bytes
    """What the messages of such chunks have in common, as fields."""


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A recording that Rerun wrote."""

    header: bytes
    version: bytes
    """The version of Rerun, as a field of the description of a recording."""
    application: bytes
    """The name of the application, as a field of the identity of a recording: Rerun changes what it
    does not like."""
    described: bytes
    """All columns of the recording, and a hash of that, as fields of the last message."""
    table: Any
    """The Arrow schema of the table of chunks in the last message."""


@lru_cache(maxsize=256)
def chunk_form(kind: Kind) -> ChunkForm:
    """Return how Rerun writes chunks of a kind.

    Raises:
        UnknownFormError: In another way than we know.
    """
    placeholder = _placeholder(kind)
    chunk = to_chunk(placeholder)
    schema = chunk.to_record_batch().schema
    names = [line.name for line in kind.timelines] + [c.name for c in kind.components]
    types = [column.type for column in placeholder.columns]
    first, *fields = schema
    if (first.type, first.nullable) != (IDENTITY_TYPE, False):
        raise UnknownFormError(f"the first column of a chunk is {first}")
    order = []
    for field in fields:
        if field.name not in names or field.type != types[names.index(field.name)]:
            raise UnknownFormError(f"a chunk has a column {field}")
        order.append(names.index(field.name))
    if sorted(order) != list(range(len(names))):
        raise UnknownFormError(f"a chunk has the columns {schema.names}")
    written, identity = schema.serialize(memory_pool=POOL).to_pybytes(), chunk.id.encode()
    if CHUNK_TEXT.fullmatch(identity) is None or written.count(identity) != 1:
        raise UnknownFormError(f"a chunk has the identity {identity!r}")
    before, after = written.split(identity)
    is_packed = not ENCODED.isdisjoint(kind.components)
    facts = number(2, PLAIN if is_packed else LZ4) + number(4, _ARROW) + number(7, kind.is_static)
    return ChunkForm(schema.remove_metadata(), order, (before, after), is_packed, facts)


def write_example(kinds: Iterable[Kind], application_id: str) -> Example:
    """Let Rerun write a recording of a chunk of each kind.

    Raises:
        UnknownFormError: It is written in another way than we know.
    """
    with TemporaryDirectory(prefix="roboreel-") as folder:
        path = Path(folder) / "example.rrd"
        store = ChunkStore.from_chunks([to_chunk(_placeholder(kind)) for kind in kinds])
        store.write_rrd(path, application_id=application_id, recording_id="example")
        data = path.read_bytes()
    try:
        return _read_example(data)
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise UnknownFormError(f"a recording could not be read: {error!r}") from error


def _placeholder(kind: Kind) -> Block:
    """Return a block of a kind with nothing in it, of two rows unless it holds at all times."""
    count = 1 if kind.is_static else 2
    # A null in each list: Rerun notes which columns have nothing but empty lists.
    columns = [values(component, pa.nulls(count, component.type)) for component in kind.components]
    ascending = np.arange(count)
    ticks = {
        name: ascending if is_sorted else ascending[::-1].copy()
        for name, is_sorted in kind.timelines
    }
    return Block(kind, make_moments(ticks), columns)


def _read_example(data: bytes) -> Example:
    messages = list(frames(data))
    if [kind for kind, _ in messages] != [STORE, *[CHUNK] * (len(messages) - 2), END]:
        raise UnknownFormError(f"messages are of the kinds {[kind for kind, _ in messages]}")
    for _, message in messages[1:-1]:
        _expect(read_fields(message), {1, 2, 3, 4, 5, 6, 7})
    store = _expect(read_fields(messages[0][1]), {1, 2})
    info = _expect(read_fields(store[2]), {2, 5, 6})
    identity = _expect(read_fields(info[2]), {1, 2, 3})
    last = _expect(read_fields(messages[-1][1]), {1})
    manifest = _expect(read_fields(last[1]), {1, 2, 3, 4})
    part = _expect(read_fields(manifest[4]), {1, 2, 3, 4})
    if (part[1], part[3]) != (1, LZ4):
        raise UnknownFormError(f"the last message has version {part[1]}, compression {part[3]}")
    table = pa.ipc.open_stream(pa.decompress(part[2], part[4], codec="lz4_raw", memory_pool=POOL))
    return Example(
        header=data[:HEADER_BYTES],
        version=nested(6, info[6]),
        application=nested(3, identity[3]),
        described=nested(2, manifest[2]) + nested(3, manifest[3]),
        table=table.schema,
    )


def _expect(fields: dict[int, int | bytes], known: set[int]) -> dict[int, Any]:
    if fields.keys() != known:
        raise UnknownFormError(f"a message has the fields {sorted(fields)}, not {sorted(known)}")
    return fields
