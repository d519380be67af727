"""MCAP files: messages in chunks, or records of their own."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

from mcap import records
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode

from roboreel.errors import CorruptFileError
from roboreel.importing.ros.container import Channel, Chunk, ChunkedFile, Record, unpack

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
_WINDOW_BYTES = 16 * 1024
_READ: dict[int, Any] = {
    Opcode.FOOTER: records.Footer,
    Opcode.SCHEMA: records.Schema,
    Opcode.CHANNEL: records.Channel,
    Opcode.CHUNK: records.Chunk,
}


class McapFile(ChunkedFile):
    """An MCAP file, open to be read.

    Raises:
        CorruptFileError: It is not MCAP, or its summary is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._schemas: dict[int, records.Schema] = {}
        super().__init__(path, "MCAP file")
        self.channels = dict(sorted(self.channels.items()))

    def walk(self) -> None:
        """Note the chunks, what lies between them, and what the summary repeats of the channels."""
        size = self._file.size_bytes
        if size < len(_MAGIC) or self._file.read(0, len(_MAGIC)) != _MAGIC:
            raise CorruptFileError(f"The file does not begin as MCAP does: {str(self.path)!r}.")
        for kind, start, stop in self._heads(len(_MAGIC), self._checked_end()):
            last = self._chunks[-1] if self._chunks else None
            if kind == Opcode.CHUNK:
                self._chunks.append(Chunk(start, stop))
            elif kind == Opcode.MESSAGE_INDEX and last is not None:
                at = start + _HEAD.size
                channel = self._file.read(at, min(at + 2, stop))
                last.channels.add(int.from_bytes(channel, "little"))
            elif kind == Opcode.MESSAGE:
                self._note_loose(start, stop)
            elif kind in (Opcode.SCHEMA, Opcode.CHANNEL):
                self._describe(kind, self._file.read(start + _HEAD.size, stop))

    def record(self, data: memoryview, at: int) -> Record:
        """Return the record at a byte of a chunk."""
        start = at + _HEAD.size
        kind, length = _HEAD.unpack_from(data, at) if start <= len(data) else (0, len(data))
        stop = start + length
        if stop > len(data) or (kind == Opcode.MESSAGE and length < _MESSAGE_HEAD.size):
            raise CorruptFileError(f"A record is cut off inside its chunk: {str(self.path)!r}.")
        if kind != Opcode.MESSAGE:
            return Record(start, stop, None)
        channel, _, log_ns, _ = _MESSAGE_HEAD.unpack_from(data, start)
        return Record(start + _MESSAGE_HEAD.size, stop, channel, log_ns)

    def describe(self, data: memoryview, at: int) -> None:
        """Note the schema or channel that a record of a chunk is, if it is one."""
        record = self.record(data, at)
        self._describe(data[at], data[record.start : record.stop])

    def load(self, chunk: Chunk) -> bytes:
        """Return the records of a chunk, or those that lie outside of chunks."""
        data = self._file.read(chunk.start, chunk.stop)
        if not chunk.is_packed:
            return data
        packed = self._parse(Opcode.CHUNK, data[_HEAD.size :])
        contents = unpack(packed.data, packed.compression, packed.uncompressed_size, self.path)
        if packed.uncompressed_crc and zlib.crc32(contents) != packed.uncompressed_crc:
            raise CorruptFileError(
                f"A chunk is damaged: its checksum is wrong: {str(self.path)!r}."
            )
        return contents

    def _note_loose(self, start: int, stop: int) -> None:
        """Note a message that lies outside of chunks: some megabytes of them are read at once."""
        last = self._chunks[-1] if self._chunks else None
        follows = last is not None and not last.is_packed and last.stop == start
        if last is not None and follows and stop - last.start <= _MOST_LOOSE_BYTES:
            last.stop = stop
        else:
            self._chunks.append(Chunk(start, stop, is_packed=False))

    def _checked_end(self) -> int:
        """Return where the footer begins, or the file ends; what lies before it has its checksum."""
        size, path = self._file.size_bytes, self.path
        end = self._file.read(max(size - _FOOTER_BYTES, 0), size)
        if not end.endswith(_MAGIC) or end[:1] != bytes([Opcode.FOOTER]) or size < 2 * len(_MAGIC):
            self.remarks.append("The file has no end: it was not closed, or was cut off.")
            return size
        footer = self._parse(Opcode.FOOTER, end[_HEAD.size : -len(_MAGIC)])
        start, stop = footer.summary_start or size - _FOOTER_BYTES, size - _FOOTER_BYTES
        if not len(_MAGIC) <= start <= stop or stop - start > _MOST_SUMMARY_BYTES:
            raise CorruptFileError(f"The summary cannot be at byte {start:,}: {str(path)!r}.")
        summary = self._file.read(start, stop)
        expected = footer.summary_crc if footer.summary_start else 0
        if expected and zlib.crc32(end[:-12], zlib.crc32(summary)) != expected:
            raise CorruptFileError(f"The summary is damaged: its checksum is wrong: {str(path)!r}.")
        return stop

    def _describe(self, kind: int, content: bytes | memoryview) -> None:
        """Note a schema or a channel; of two with one number, the first counts."""
        if kind == Opcode.SCHEMA:
            schema = self._parse(kind, content)
            self._schemas.setdefault(schema.id, schema)
        elif kind == Opcode.CHANNEL:
            raw = self._parse(kind, content)
            schema = self._schemas.get(raw.schema_id) or records.Schema(0, b"", "", "")
            described = (schema.encoding, schema.data)
            channel = Channel(raw.topic, schema.name, raw.message_encoding, *described)
            self.channels.setdefault(raw.id, channel)

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
            yield kind, at, at + _HEAD.size + length
            at += _HEAD.size + length
        if at < stop:
            self.remarks.append(
                f"A record is cut off at byte {stop:,}: the {stop - at:,} bytes of it are left out."
            )

    def _parse(self, kind: int, content: bytes | memoryview) -> Any:  # noqa: ANN401  # by its kind
        """Return a record by its kind.

        Raises:
            CorruptFileError: It cannot be understood.
        """
        try:
            return _READ[kind].read(ReadDataStream(BytesIO(content)))
        except (McapError, struct.error, ValueError, OverflowError) as error:
            why = error or "cut off"
            raise CorruptFileError(
                f"A {_READ[kind].__name__} record cannot be read ({why}): {str(self.path)!r}."
            ) from error
