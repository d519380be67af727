"""Blocks into recordings: .rrd files as Rerun writes them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rerun.chunk import LazyChunkStream

from roboreel.files import atomic_name
from roboreel.rerun.blocks import Kind, lend_chunks
from roboreel.rerun.chunk_table import ChunkEntry, ChunkTable
from roboreel.rerun.columns import POOL, TEXT
from roboreel.rerun.example import Example, chunk_form, write_example
from roboreel.rerun.identity import Identities, Identity
from roboreel.rerun.protobuf import nested, number, tag, varint
from roboreel.rerun.rrd import CHUNK, END, LZ4, STORE, UnknownFormError, ending, frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO

    from roboreel.rerun.blocks import Block

__all__ = ["RecordingWriter"]

# Small messages are gathered until there are so many bytes; larger ones go as they are.
_BUFFER_BYTES = 2**17
_OTHER_SOURCE = 6
_RECORDING = 1
# What ends an Arrow stream.
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class RecordingWriter:
    """Writes recordings of one application; files appear whole.

    We write the file ourselves, after the pattern of what the Rerun that is installed writes:
    images go to the file as they are, and nothing but the chunk at hand is held. Should a Rerun to
    come write in a way that we do not know, it writes ours too, more slowly.

    Args:
        folder: Where they appear.
        application_id: What they have in common.
    """

    def __init__(self, folder: str | os.PathLike[str], application_id: str) -> None:
        self._folder = os.fspath(folder)
        self._application_id = application_id
        self._example = _usual_example(application_id)
        self._identities = Identities()

    def name_of(self, recording_id: str) -> str:
        """Return where a recording appears."""
        return os.path.join(self._folder, f"{recording_id}.rrd")

    def has(self, recording_id: str) -> bool:
        """Return whether a recording is there already."""
        return os.path.exists(self.name_of(recording_id))

    def write(self, make_blocks: Callable[[], Iterable[Block]], recording_id: str) -> None:
        """Write a recording.

        Args:
            make_blocks: Makes what is in it, from the start whenever it is called.
            recording_id: What it is called.
        """
        with atomic_name(self.name_of(recording_id), sync=False) as temporary:
            if self._example is not None:
                try:
                    self._write(temporary, make_blocks(), recording_id, self._example)
                except UnknownFormError:
                    self._example = None  # Known at first sight, but not in this.
                else:
                    return
            with lend_chunks(make_blocks()) as chunks:
                LazyChunkStream.from_iter(chunks).write_rrd(
                    temporary, application_id=self._application_id, recording_id=recording_id
                )

    def _write(
        self, name: str, blocks: Iterable[Block], recording_id: str, example: Example
    ) -> None:
        store_id = _store_id(example.application, recording_id)
        with open(name, "wb", buffering=_BUFFER_BYTES) as file:
            recording = _Recording(file, store_id, example, self._identities)
            for block in blocks:
                recording.add(block)
            recording.finish()


@lru_cache(maxsize=16)
def _usual_example(application_id: str) -> Example | None:
    """Return a recording of the Rerun that is installed; None if it writes as we do not know."""
    try:
        return write_example([Kind("/a", (), (TEXT,))], application_id)
    except UnknownFormError:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class _Pattern:
    """How recordings that are made of the same kinds of chunks look."""

    example: Example
    table: ChunkTable
    head: bytes
    """The schema of the table, in bytes."""


@lru_cache(maxsize=16)
def _pattern(kinds: tuple[Kind, ...]) -> _Pattern:
    example = write_example(kinds, "roboreel")
    head = example.table.serialize(memory_pool=POOL).to_pybytes()
    return _Pattern(example, ChunkTable(example.table, kinds), head)


class _Recording:
    """A file that chunks are added to."""

    def __init__(
        self, file: BinaryIO, store_id: bytes, example: Example, identities: Identities
    ) -> None:
        self._file = file
        self._store = nested(1, store_id)
        self._identities = identities
        self._entries: list[ChunkEntry] = []
        described = _describe(store_id, example.version, identities.take())
        start = example.header + frame(STORE, len(described)) + described
        self._offset = file.write(start)

    def add(self, block: Block) -> None:
        """Write a chunk."""
        kind, count, form = block.kind, block.num_rows, chunk_form(block.kind)
        columns, identity = block.columns, self._identities.take()
        batch = pa.RecordBatch.from_arrays(
            [self._identities.take_column(count), *[columns[place] for place in form.order]],
            schema=form.schema,
        )
        before, after = form.head
        head, body = before + identity.as_text() + after, batch.serialize(memory_pool=POOL)
        stream_bytes = len(head) + len(body) + len(_END_OF_STREAM)
        stream: tuple[Any, ...] = (head, body, _END_OF_STREAM)
        if not form.is_packed:
            stream = (_compress(b"".join(stream)),)
        packed_bytes = stream_bytes if form.is_packed else len(stream[0])
        described = b"".join(
            (
                self._store,
                form.facts,
                number(3, stream_bytes),
                nested(6, identity.as_message()),
                tag(5),
                varint(packed_bytes),
            )
        )
        offset, size_bytes = self._put(CHUNK, described, stream, packed_bytes)
        self._entries.append(
            ChunkEntry(
                kind,
                identity.as_bytes(),
                block.moments.spans,
                count,
                offset,
                size_bytes,
                stream_bytes,
            )
        )

    def finish(self) -> None:
        """Write where the chunks lie."""
        pattern = _pattern(tuple(dict.fromkeys([entry.kind for entry in self._entries])))
        batch = pattern.table.batch(self._entries)
        stream = b"".join((pattern.head, batch.serialize(memory_pool=POOL), _END_OF_STREAM))
        part = number(1, 1) + nested(2, _compress(stream))
        part += number(3, LZ4) + number(4, len(stream))
        message = nested(1, self._store + pattern.example.described + nested(4, part))
        offset, _ = self._put(END, message, (), 0)
        self._file.write(ending(offset, message))

    def _put(
        self, kind: int, start: bytes, further: tuple[Any, ...], further_bytes: int
    ) -> tuple[int, int]:
        """Write a message; return where it begins, and its size."""
        size_bytes = len(start) + further_bytes
        framed = frame(kind, size_bytes)
        self._file.write(framed + start)
        for part in further:
            self._file.write(part)
        offset = self._offset + len(framed)
        self._offset = offset + size_bytes
        return offset, size_bytes


def _store_id(application: bytes, recording_id: str) -> bytes:
    return number(1, _RECORDING) + nested(2, recording_id.encode()) + application


def _describe(store_id: bytes, version: bytes, identity: Identity) -> bytes:
    source = number(1, _OTHER_SOURCE) + nested(2, nested(1, b"roboreel"))
    info = nested(2, store_id) + nested(5, source) + version
    return nested(1, identity.as_message()) + nested(2, info)


_codec = pa.Codec("lz4_raw")


def _compress(data: bytes) -> bytes:
    compressed: bytes = _codec.compress(data, asbytes=True)
    return compressed
