"""Bags of ROS 1: records with headers of named fields, messages in chunks."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from roboreel.errors import CorruptFileError
from roboreel.importing.ros.container import Channel, Chunk, ChunkedFile, Record, unpack

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"#ROSBAG V2.0\n"
_U32 = struct.Struct("<I")
_TIME = struct.Struct("<II")
_MESSAGE, _BAG, _INDEX, _CHUNK, _CONNECTION = 2, 3, 4, 5, 7
_MOST_HEADER_BYTES = 64 * 1024


class _Record(NamedTuple):
    kind: int
    fields: dict[bytes, bytes]
    data_start: int
    stop: int


class BagFile(ChunkedFile):
    """A bag of ROS 1, open to be read.

    Raises:
        CorruptFileError: It is not a bag of version 2.0, is encrypted, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "ROS bag")

    def walk(self) -> None:
        """Note the chunks, and the connections behind them, which a bag that was not closed lacks."""
        size = self._file.size_bytes
        if size < len(MAGIC) or self._file.read(0, len(MAGIC)) != MAGIC:
            raise CorruptFileError(
                "The file does not begin as a ROS bag of version 2.0 does. An older bag is "
                f"converted by `rosbag fix`: {str(self.path)!r}."
            )
        head = self._outside(len(MAGIC))
        if head is None or head.kind != _BAG:
            raise CorruptFileError(f"The bag has no header: {str(self.path)!r}.")
        if head.fields.get(b"encryptor"):
            raise CorruptFileError(f"The bag is encrypted: decrypt it first: {str(self.path)!r}.")
        at = head.stop
        while (record := self._outside(at)) is not None:
            if record.kind == _CHUNK:
                self._chunks.append(Chunk(at, record.stop))
            elif record.kind == _INDEX and self._chunks:
                self._chunks[-1].channels.add(self._u32(record, b"conn"))
            elif record.kind == _CONNECTION:
                body = self._file.read(record.data_start, record.stop)
                self._add_connection(record, memoryview(body))
            at = record.stop
        index = int.from_bytes(head.fields.get(b"index_pos", b""), "little")
        if not head.stop <= index <= size:
            lost = f"The last {size - at:,} bytes are of a chunk that is not whole."
            self.remarks.append(
                "The bag has no index: it was not closed, or was cut off. "
                + (lost if at < size else "")
            )
        elif self._u32(head, b"chunk_count") != len(self._chunks):
            raise CorruptFileError(
                f"The bag should have {self._u32(head, b'chunk_count')} chunks, and "
                f"{len(self._chunks)} are found. Run `rosbag reindex` on a copy: {str(self.path)!r}."
            )

    def record(self, data: memoryview, at: int) -> Record:
        """Return the record at a byte of a chunk."""
        record = self._packed_record(data, at)
        if record.kind != _MESSAGE:
            return Record(record.data_start, record.stop, None)
        number = self._u32(record, b"conn")
        return Record(record.data_start, record.stop, number, self._time(record))

    def describe(self, data: memoryview, at: int) -> None:
        """Note the channel that a record of a chunk describes, if it does."""
        record = self._packed_record(data, at)
        if record.kind == _CONNECTION:
            self._add_connection(record, data[record.data_start : record.stop])

    def load(self, chunk: Chunk) -> bytes:
        """Return the records of a chunk, unpacked."""
        record = self._outside(chunk.start)
        if record is None:
            raise CorruptFileError(f"The bag is now shorter than it was: {str(self.path)!r}.")
        compression = record.fields.get(b"compression", b"none").decode("ascii", "replace")
        packed = self._file.read(record.data_start, record.stop)
        return unpack(packed, compression, self._u32(record, b"size"), self.path)

    def _add_connection(self, record: _Record, body: memoryview) -> None:
        described = _fields(body, self.path)
        topic = record.fields.get(b"topic", described.get(b"topic", b""))
        try:
            channel = Channel(
                topic.decode(),
                described.get(b"type", b"").decode(),
                "ros1",
                "ros1msg",
                described.get(b"message_definition", b""),
            )
        except UnicodeDecodeError as error:
            raise CorruptFileError(f"A topic's name is not text: {str(self.path)!r}.") from error
        self.channels.setdefault(self._u32(record, b"conn"), channel)

    def _outside(self, at: int) -> _Record | None:
        """Return the record at a byte of the file; None if it is not whole there."""
        size = self._file.size_bytes
        if at + 4 > size:
            return None
        (length,) = _U32.unpack(self._file.read(at, at + 4))
        if length > _MOST_HEADER_BYTES or at + 8 + length > size:
            return None
        head = self._file.read(at + 4, at + 8 + length)
        (data_length,) = _U32.unpack_from(head, length)
        start = at + 8 + length
        if start + data_length > size:
            return None
        fields = _fields(memoryview(head)[:length], self.path)
        return _Record(_kind(fields), fields, start, start + data_length)

    def _packed_record(self, data: memoryview, at: int) -> _Record:
        """Return the record at a byte of a chunk."""
        try:
            (length,) = _U32.unpack_from(data, at)
            (data_length,) = _U32.unpack_from(data, at + 4 + length)
        except struct.error:
            length, data_length = len(data), 0
        start = at + 8 + length
        if start + data_length > len(data):
            raise CorruptFileError(f"A record is cut off inside its chunk: {str(self.path)!r}.")
        fields = _fields(data[at + 4 : at + 4 + length], self.path)
        return _Record(_kind(fields), fields, start, start + data_length)

    def _u32(self, record: _Record, name: bytes) -> int:
        value = record.fields.get(name, b"")
        if len(value) != 4:
            raise CorruptFileError(f"A record has no number {name.decode()!r}: {str(self.path)!r}.")
        return int.from_bytes(value, "little")

    def _time(self, record: _Record) -> int:
        value = record.fields.get(b"time", b"")
        if len(value) != 8:
            raise CorruptFileError(f"A message has no time: {str(self.path)!r}.")
        seconds, nanoseconds = _TIME.unpack(value)
        return int(seconds) * 10**9 + int(nanoseconds)


def _fields(head: memoryview, path: Path) -> dict[bytes, bytes]:
    fields = {}
    at = 0
    while at + 4 <= len(head):
        (length,) = _U32.unpack_from(head, at)
        name, found, value = bytes(head[at + 4 : at + 4 + length]).partition(b"=")
        if not found or at + 4 + length > len(head):
            raise CorruptFileError(f"A record's header cannot be read: {str(path)!r}.")
        fields[name] = value
        at += 4 + length
    return fields


def _kind(fields: dict[bytes, bytes]) -> int:
    kind = fields.get(b"op", b"")
    return kind[0] if len(kind) == 1 else -1
