"""Bags of ROS 1: records with headers of named fields, messages in chunks."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

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

MAGIC = b"#ROSBAG V2.0\n"
_U32 = struct.Struct("<I")
_TIME = struct.Struct("<II")
_MESSAGE, _BAG, _CHUNK, _CHUNK_INFO, _CONNECTION = 2, 3, 5, 6, 7
_MOST_HEADER_BYTES = 64 * 1024
_MOST_INDEX_BYTES = 256 * 1024**2


class _Record(NamedTuple):
    kind: int
    fields: dict[bytes, bytes]
    data_start: int
    stop: int


class BagFile(ChunkedFile):
    """A bag of ROS 1, open to be read.

    A bag that was not closed has no index. Its chunks are found one by one then, and what is whole
    of it is read.

    Raises:
        CorruptFileError: It is not a bag of version 2.0, is encrypted, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._starts: list[int] = []
        self._inside: list[frozenset[int] | None] = []
        super().__init__(path, "ROS bag")

    def chunk_channels(self, chunk: int) -> frozenset[int] | None:
        """Return which channels have messages in a chunk; None if that is not known."""
        return self._inside[chunk]

    def record(self, data: memoryview, at: int) -> Record:
        """Return the record at a byte of a chunk."""
        record = self._packed_record(data, at)
        if record.kind != _MESSAGE:
            return Record(record.data_start, record.stop, None)
        number = self._u32(record, b"conn")
        return Record(record.data_start, record.stop, number, self._time(record))

    def open(self) -> None:
        """Read the index, or find the chunks one by one where there is none."""
        if self._file.size_bytes < len(MAGIC) or self._file.read(0, len(MAGIC)) != MAGIC:
            raise CorruptFileError(
                "The file does not begin as a ROS bag of version 2.0 does. An older bag is "
                f"converted by `rosbag fix`: {str(self.path)!r}."
            )
        head = self._outside(len(MAGIC))
        if head is None or head.kind != _BAG:
            raise CorruptFileError(f"The bag has no header: {str(self.path)!r}.")
        if head.fields.get(b"encryptor"):
            raise CorruptFileError(f"The bag is encrypted: decrypt it first: {str(self.path)!r}.")
        index = int.from_bytes(head.fields.get(b"index_pos", b""), "little")
        if head.stop <= index < self._file.size_bytes:
            self._read_index(index, self._u32(head, b"chunk_count"))
        elif index != self._file.size_bytes or self._u32(head, b"chunk_count"):
            self._walk(head.stop)

    def _read_index(self, start: int, chunk_count: int) -> None:
        if self._file.size_bytes - start > _MOST_INDEX_BYTES:
            raise CorruptFileError(
                f"The index has {self._file.size_bytes - start:,} bytes: {str(self.path)!r}."
            )
        data = memoryview(self._file.read(start, self._file.size_bytes))
        for record, body in self._described(data):
            if record.kind == _CHUNK_INFO:
                self._add_chunk(record, body, start)
        if self.chunk_count != chunk_count:
            raise CorruptFileError(
                f"The bag has {chunk_count} chunks and its index names {self.chunk_count}. "
                f"Run `rosbag reindex` on a copy: {str(self.path)!r}."
            )

    def _add_chunk(self, record: _Record, body: memoryview, index_start: int) -> None:
        start = int.from_bytes(record.fields.get(b"chunk_pos", b""), "little")
        if not len(MAGIC) < start < index_start:
            raise CorruptFileError(
                f"The index names a chunk at byte {start:,}, where none can be: {str(self.path)!r}."
            )
        numbers = struct.unpack(f"<{len(body) // 8 * 2}I", body[: len(body) // 8 * 8])
        self._note_chunk(start, frozenset(numbers[::2]))

    def _note_chunk(self, start: int, channels: frozenset[int] | None) -> None:
        self._starts.append(start)
        self._inside.append(channels)
        self.chunk_count += 1

    def _walk(self, start: int) -> None:
        """Find the chunks of a bag without an index, and the connections inside them."""
        at = start
        while (record := self._outside(at)) is not None:
            if record.kind == _CHUNK:
                self._note_chunk(at, None)
                list(self._described(self.unpacked(self.chunk_count - 1)))
            at = record.stop
        lost = self._file.size_bytes - at
        self.remarks.append(
            "The bag has no index: it was not closed, or was cut off. "
            + (f"The last {lost:,} bytes are of a chunk that is not whole." if lost else "")
        )

    def _described(self, data: memoryview) -> Iterator[tuple[_Record, memoryview]]:
        """Yield the records of a chunk or of the index; connections are noted on the way."""
        at = 0
        while at < len(data):
            record = self._packed_record(data, at)
            body = data[record.data_start : record.stop]
            if record.kind == _CONNECTION:
                self._add_connection(record, body)
            yield record, body
            at = record.stop

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

    def load(self, chunk: int) -> bytes:
        """Return the records of a chunk, unpacked."""
        record = self._outside(self._starts[chunk])
        if record is None or record.kind != _CHUNK:
            raise CorruptFileError(
                f"The index names a chunk at byte {self._starts[chunk]:,}, where there is "
                f"none. Run `rosbag reindex` on a copy: {str(self.path)!r}."
            )
        compression = record.fields.get(b"compression", b"none").decode("ascii", "replace")
        check_chunk_size(record.stop - record.data_start, self.path)
        packed = self._file.read(record.data_start, record.stop)
        return unpack(packed, compression, self._u32(record, b"size"), self.path)

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
