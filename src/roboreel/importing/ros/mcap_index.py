"""What the summary of an MCAP file says, and what its records say where there is no summary."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError
from roboreel.importing.ros.container import Channel
from roboreel.importing.ros.unpacking import unpack

try:
    from mcap import records
    from mcap.data_stream import ReadDataStream
    from mcap.exceptions import McapError
    from mcap.opcode import Opcode
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Reading MCAP files needs mcap. Install it with: pip install 'roboreel[ros]'",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roboreel.spans.reading import SpanReader

__all__ = ["HEAD", "MAGIC", "Block", "Contents", "parse", "read_contents", "unpack_chunk"]

MAGIC = b"\x89MCAP0\r\n"
HEAD = struct.Struct("<BQ")
"""Before each record: what it is, and how many bytes follow."""
_FOOTER_BYTES = HEAD.size + 20 + len(MAGIC)
_MOST_SUMMARY_BYTES = 256 * 1024**2
_MOST_LOOSE_BYTES = 4 * 1024**2
_WINDOW_BYTES = 64 * 1024
_READ: dict[int, Any] = {
    Opcode.HEADER: records.Header,
    Opcode.FOOTER: records.Footer,
    Opcode.SCHEMA: records.Schema,
    Opcode.CHANNEL: records.Channel,
    Opcode.CHUNK: records.Chunk,
    Opcode.CHUNK_INDEX: records.ChunkIndex,
}


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the file that is read at once: a chunk, or records that lie outside of chunks."""

    start: int
    stop: int
    end: int
    """Where the records begin that come after it and its index."""
    is_chunk: bool
    channels: frozenset[int] | None = None
    """Whose messages it has; None if that is not known."""


@dataclass(slots=True)
class Contents:
    """What there is in a file."""

    blocks: list[Block] = field(default_factory=list)
    schemas: dict[int, records.Schema] = field(default_factory=dict)
    raw_channels: dict[int, records.Channel] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, record: object) -> None:
        """Note a schema or a channel; of two with one number, the first counts."""
        if isinstance(record, records.Schema):
            self.schemas.setdefault(record.id, record)
        elif isinstance(record, records.Channel):
            self.raw_channels.setdefault(record.id, record)

    def channels(self) -> dict[int, Channel]:
        """Return the channels with their types."""
        return {number: self._channel(raw) for number, raw in sorted(self.raw_channels.items())}

    def _channel(self, raw: records.Channel) -> Channel:
        schema = self.schemas.get(raw.schema_id)
        if schema is None:
            return Channel(raw.topic, "", raw.message_encoding)
        return Channel(raw.topic, schema.name, raw.message_encoding, schema.encoding, schema.data)


def read_contents(file: SpanReader) -> Contents:
    """Return the contents of a file: from its summary, and by walking where that says nothing.

    Raises:
        CorruptFileError: It is not MCAP, or its summary is damaged.
    """
    contents = Contents()
    if file.size_bytes < len(MAGIC) or file.read(0, len(MAGIC)) != MAGIC:
        raise CorruptFileError(f"The file does not begin as MCAP does: {str(file.path)!r}.")
    stop = _read_summary(file, contents)
    indexed = sorted(contents.blocks, key=lambda block: block.start)
    contents.blocks = []
    at = len(MAGIC)
    # What no index covers is walked; without an index, that is the whole file.
    for block in indexed:
        if block.start < at:
            raise CorruptFileError(f"The index names a chunk twice: {str(file.path)!r}.")
        _walk(file, at, block.start, contents)
        contents.blocks.append(block)
        at = block.end
    _walk(file, at, stop, contents)
    return contents


def _read_summary(file: SpanReader, contents: Contents) -> int:
    """Read the summary, if there is one; return where the data ends."""
    size, path = file.size_bytes, file.path
    end = file.read(max(size - _FOOTER_BYTES, 0), size)
    if not end.endswith(MAGIC) or end[:1] != bytes([Opcode.FOOTER]) or size < 2 * len(MAGIC):
        contents.remarks.append("The file has no end: it was not closed, or was cut off.")
        return size
    footer = parse(Opcode.FOOTER, end[HEAD.size : -len(MAGIC)], path)
    if not footer.summary_start:
        return size - _FOOTER_BYTES
    start, stop = footer.summary_start, size - _FOOTER_BYTES
    if not len(MAGIC) <= start <= stop or stop - start > _MOST_SUMMARY_BYTES:
        raise CorruptFileError(f"The summary cannot be at byte {start:,}: {str(path)!r}.")
    data = file.read(start, stop)
    if footer.summary_crc and zlib.crc32(end[:-12], zlib.crc32(data)) != footer.summary_crc:
        raise CorruptFileError(f"The summary is damaged: its checksum is wrong: {str(path)!r}.")
    for kind, content in _records(data, path):
        if kind == Opcode.CHUNK_INDEX:
            contents.blocks.append(_indexed(parse(kind, content, path), start, path))
        elif kind in (Opcode.SCHEMA, Opcode.CHANNEL):
            contents.add(parse(kind, content, path))
    if contents.blocks and not contents.raw_channels:  # An index without what it speaks of.
        contents.blocks = []
    return int(start)


def _indexed(index: records.ChunkIndex, summary_start: int, path: Path) -> Block:
    start = index.chunk_start_offset
    stop = start + index.chunk_length
    end = stop + index.message_index_length
    if not (len(MAGIC) <= start < stop <= end <= summary_start):
        raise CorruptFileError(
            f"The index names a chunk at bytes {start:,} to {end:,}, where none can be: {str(path)!r}."
        )
    return Block(start, stop, end, True, frozenset(index.message_index_offsets) or None)


def _walk(file: SpanReader, start: int, stop: int, contents: Contents) -> None:
    """Note the blocks, schemas and channels between two places."""
    loose: tuple[int, int] | None = None
    for kind, at, end in _heads(file, start, stop, contents):
        if loose and (kind != Opcode.MESSAGE or end - loose[0] > _MOST_LOOSE_BYTES):
            contents.blocks.append(Block(*loose, loose[1], False))
            loose = None
        if kind == Opcode.MESSAGE:
            loose = (loose[0] if loose else at, end)
        elif kind in (Opcode.SCHEMA, Opcode.CHANNEL):
            contents.add(parse(kind, file.read(at + HEAD.size, end), file.path))
        elif kind == Opcode.CHUNK:
            _walk_chunk(file, at, end, contents)
    if loose:
        contents.blocks.append(Block(*loose, loose[1], False))


def _walk_chunk(file: SpanReader, start: int, stop: int, contents: Contents) -> None:
    """Note a chunk without an index, which may be the only place that describes its channels."""
    data = unpack_chunk(file.read(start + HEAD.size, stop), file.path)
    channels = set()
    for kind, content in _records(data, file.path):
        if kind in (Opcode.SCHEMA, Opcode.CHANNEL):
            contents.add(parse(kind, content, file.path))
        elif kind == Opcode.MESSAGE and len(content) >= 2:
            channels.add(int.from_bytes(content[:2], "little"))
    contents.blocks.append(Block(start, stop, stop, True, frozenset(channels)))


def _heads(
    file: SpanReader, start: int, stop: int, contents: Contents
) -> Iterator[tuple[int, int, int]]:
    """Yield kind, start and stop of each whole record between two places."""
    window, window_start = b"", start
    at = start
    while at < stop:
        if at + HEAD.size > window_start + len(window):
            window_start = at
            window = file.read(at, min(at + _WINDOW_BYTES, stop))
        if at + HEAD.size > window_start + len(window):
            break
        kind, length = HEAD.unpack_from(window, at - window_start)
        if at + HEAD.size + length > stop:
            break
        if kind == Opcode.DATA_END:
            return
        yield kind, at, at + HEAD.size + length
        at += HEAD.size + length
    if at < stop:
        contents.remarks.append(
            f"A record is cut off at byte {stop:,}: the {stop - at:,} bytes of it are left out."
        )


def _records(data: bytes | memoryview, path: Path) -> Iterator[tuple[int, memoryview]]:
    view, at = memoryview(data), 0
    while at + HEAD.size <= len(view):
        kind, length = HEAD.unpack_from(view, at)
        stop = at + HEAD.size + length
        if stop > len(view):
            break
        yield kind, view[at + HEAD.size : stop]
        at = stop
    if at < len(view):
        raise CorruptFileError(f"A record in a chunk or in the summary is cut off: {str(path)!r}.")


def unpack_chunk(content: bytes, path: Path) -> bytes:
    """Return the records of a chunk, from the content of its record.

    Raises:
        CorruptFileError: It is damaged.
    """
    chunk = parse(Opcode.CHUNK, content, path)
    data = unpack(chunk.data, chunk.compression, chunk.uncompressed_size, path)
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        raise CorruptFileError(f"A chunk is damaged: its checksum is wrong: {str(path)!r}.")
    return data


def parse(kind: int, content: bytes | memoryview, path: Path) -> Any:  # noqa: ANN401  # by its kind
    """Return a record by its kind.

    Raises:
        CorruptFileError: It cannot be understood.
    """
    try:
        return _READ[kind].read(ReadDataStream(BytesIO(content)))
    except (McapError, struct.error, ValueError, OverflowError) as error:
        raise CorruptFileError(
            f"A {_READ[kind].__name__} record cannot be read ({error or 'cut off'}): {str(path)!r}."
        ) from error
