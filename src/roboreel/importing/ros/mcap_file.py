"""MCAP files: messages in chunks, with or without an index."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from mcap import records
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode

from roboreel.errors import CorruptFileError
from roboreel.importing.ros.container import (
    Channel,
    ChunkedFile,
    Record,
    check_chunk_size,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAGIC = b"\x89MCAP0\r\n"
_HEAD = struct.Struct("<BQ")
"""Before each record: what it is, and how many bytes follow."""
_MESSAGE_HEAD = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time
_FOOTER_BYTES = _HEAD.size + 20 + len(_MAGIC)
_MOST_SUMMARY_BYTES = 256 * 1024**2
_MOST_LOOSE_BYTES = 4 * 1024**2
_WINDOW_BYTES = 64 * 1024
_READ: dict[int, Any] = {
    Opcode.FOOTER: records.Footer,
    Opcode.SCHEMA: records.Schema,
    Opcode.CHANNEL: records.Channel,
    Opcode.CHUNK: records.Chunk,
    Opcode.CHUNK_INDEX: records.ChunkIndex,
}


@dataclass(frozen=True, slots=True)
class _Block:
    """A part of the file that is read at once: a chunk, or records that lie outside of chunks."""

    start: int
    stop: int
    end: int
    """Where the records begin that come after it and its index."""
    is_chunk: bool
    channels: frozenset[int] | None = None
    """Whose messages it has; None if that is not known."""


class McapFile(ChunkedFile):
    """An MCAP file, open to be read.

    Raises:
        CorruptFileError: It is not MCAP, or its summary is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._blocks: list[_Block] = []
        self._schemas: dict[int, records.Schema] = {}
        self._raw_channels: dict[int, records.Channel] = {}
        super().__init__(path, "MCAP file")

    def chunk_channels(self, chunk: int) -> frozenset[int] | None:
        """Return which channels have messages in a chunk; None if that is not known."""
        return self._blocks[chunk].channels

    def record(self, data: memoryview, at: int) -> Record:
        """Return the record at a byte of a chunk."""
        kind, start, stop = _record(data, at, self.path)
        if kind != Opcode.MESSAGE:
            return Record(start, stop, None)
        if stop - start < _MESSAGE_HEAD.size:
            raise CorruptFileError(f"A message is cut off inside its chunk: {str(self.path)!r}.")
        channel, _, log_ns, _ = _MESSAGE_HEAD.unpack_from(data, start)
        return Record(start + _MESSAGE_HEAD.size, stop, channel, log_ns)

    def load(self, chunk: int) -> bytes:
        """Return the records of a chunk, or those that lie outside of chunks."""
        block = self._blocks[chunk]
        check_chunk_size(block.stop - block.start, self.path)
        data = self._file.read(block.start, block.stop)
        if not block.is_chunk:
            return data
        if len(data) < _HEAD.size or data[0] != Opcode.CHUNK:
            raise CorruptFileError(
                f"The index names a chunk at byte {block.start:,}, where there is none: "
                f"{str(self.path)!r}."
            )
        return _unpack_chunk(data[_HEAD.size :], self.path)

    def open(self) -> None:
        """Read the summary, and walk through what it does not list; without one, through the file."""
        if self._file.size_bytes < len(_MAGIC) or self._file.read(0, len(_MAGIC)) != _MAGIC:
            raise CorruptFileError(f"The file does not begin as MCAP does: {str(self.path)!r}.")
        stop = self._read_summary()
        indexed = sorted(self._blocks, key=lambda block: block.start)
        self._blocks = []
        at = len(_MAGIC)
        for block in indexed:
            if block.start < at:
                raise CorruptFileError(f"The index names a chunk twice: {str(self.path)!r}.")
            self._walk(at, block.start)
            self._blocks.append(block)
            at = block.end
        self._walk(at, stop)
        self.chunk_count = len(self._blocks)
        for number, raw in sorted(self._raw_channels.items()):
            schema = self._schemas.get(raw.schema_id)
            described = ("", b"") if schema is None else (schema.encoding, schema.data)
            name = "" if schema is None else schema.name
            self.channels[number] = Channel(raw.topic, name, raw.message_encoding, *described)

    def _read_summary(self) -> int:
        """Read the summary, if there is one; return where the data ends."""
        size, path = self._file.size_bytes, self.path
        end = self._file.read(max(size - _FOOTER_BYTES, 0), size)
        if not end.endswith(_MAGIC) or end[:1] != bytes([Opcode.FOOTER]) or size < 2 * len(_MAGIC):
            self.remarks.append("The file has no end: it was not closed, or was cut off.")
            return size
        footer = _parse(Opcode.FOOTER, end[_HEAD.size : -len(_MAGIC)], path)
        if not footer.summary_start:
            return size - _FOOTER_BYTES
        start, stop = footer.summary_start, size - _FOOTER_BYTES
        if not len(_MAGIC) <= start <= stop or stop - start > _MOST_SUMMARY_BYTES:
            raise CorruptFileError(f"The summary cannot be at byte {start:,}: {str(path)!r}.")
        data = self._file.read(start, stop)
        if footer.summary_crc and zlib.crc32(end[:-12], zlib.crc32(data)) != footer.summary_crc:
            raise CorruptFileError(f"The summary is damaged: its checksum is wrong: {str(path)!r}.")
        for kind, content in _records(data, path):
            if kind == Opcode.CHUNK_INDEX:
                self._blocks.append(_indexed(_parse(kind, content, path), start, path))
            self._describe(kind, content)
        if not self._raw_channels:  # An index without the channels that it names.
            self._blocks = []
        return int(start)

    def _describe(self, kind: int, content: bytes | memoryview) -> None:
        """Note a schema or a channel; of two with one number, the first counts."""
        kept = {Opcode.SCHEMA: self._schemas, Opcode.CHANNEL: self._raw_channels}.get(kind)
        if kept is not None:
            record = _parse(kind, content, self.path)
            kept.setdefault(record.id, record)

    def _walk(self, start: int, stop: int) -> None:
        """Note the blocks, schemas and channels between two places."""
        loose: tuple[int, int] | None = None
        for kind, at, end in self._heads(start, stop):
            if loose and (kind != Opcode.MESSAGE or end - loose[0] > _MOST_LOOSE_BYTES):
                self._blocks.append(_Block(*loose, loose[1], False))
                loose = None
            if kind == Opcode.MESSAGE:
                loose = (loose[0] if loose else at, end)
            elif kind in (Opcode.SCHEMA, Opcode.CHANNEL):
                self._describe(kind, self._file.read(at + _HEAD.size, end))
            elif kind == Opcode.CHUNK:
                self._walk_chunk(at, end)
        if loose:
            self._blocks.append(_Block(*loose, loose[1], False))

    def _walk_chunk(self, start: int, stop: int) -> None:
        """Note a chunk without an index, which may be the only place that describes its channels."""
        data = _unpack_chunk(self._file.read(start + _HEAD.size, stop), self.path)
        channels = set()
        for kind, content in _records(data, self.path):
            self._describe(kind, content)
            if kind == Opcode.MESSAGE:
                channels.add(int.from_bytes(content[:2], "little"))
        self._blocks.append(_Block(start, stop, stop, True, frozenset(channels)))

    def _heads(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield kind, start and stop of each whole record between two places of the file."""
        window, window_start = b"", start
        at = start
        while at < stop:
            if at + _HEAD.size > window_start + len(window):
                window_start = at
                window = self._file.read(at, min(at + _WINDOW_BYTES, stop))
            if at + _HEAD.size > window_start + len(window):
                break
            kind, length = _HEAD.unpack_from(window, at - window_start)
            if at + _HEAD.size + length > stop:
                break
            if kind == Opcode.DATA_END:
                return
            yield kind, at, at + _HEAD.size + length
            at += _HEAD.size + length
        if at < stop:
            self.remarks.append(
                f"A record is cut off at byte {stop:,}: the {stop - at:,} bytes of it are left out."
            )


def _indexed(index: records.ChunkIndex, summary_start: int, path: Path) -> _Block:
    start = index.chunk_start_offset
    stop = start + index.chunk_length
    end = stop + index.message_index_length
    if not (len(_MAGIC) <= start < stop <= end <= summary_start):
        raise CorruptFileError(
            f"The index names a chunk at bytes {start:,} to {end:,}, where none can be: {str(path)!r}."
        )
    return _Block(start, stop, end, True, frozenset(index.message_index_offsets) or None)


def _record(data: memoryview, at: int, path: Path) -> tuple[int, int, int]:
    """Return kind, start and stop of the record at a byte of a chunk or of the summary."""
    start = at + _HEAD.size
    if start <= len(data):
        kind, length = _HEAD.unpack_from(data, at)
        if start + length <= len(data):
            return kind, start, start + length
    raise CorruptFileError(f"A record in a chunk or in the summary is cut off: {str(path)!r}.")


def _records(data: bytes, path: Path) -> Iterator[tuple[int, memoryview]]:
    """Yield kind and content of each record of a chunk or of the summary."""
    view, at = memoryview(data), 0
    while at < len(view):
        kind, start, at = _record(view, at, path)
        yield kind, view[start:at]


def _unpack_chunk(content: bytes, path: Path) -> bytes:
    """Return the records of a chunk, from the content of its record.

    Raises:
        CorruptFileError: It is damaged.
    """
    chunk = _parse(Opcode.CHUNK, content, path)
    data = unpack(chunk.data, chunk.compression, chunk.uncompressed_size, path)
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        raise CorruptFileError(f"A chunk is damaged: its checksum is wrong: {str(path)!r}.")
    return data


def _parse(kind: int, content: bytes | memoryview, path: Path) -> Any:  # noqa: ANN401  # by its kind
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
