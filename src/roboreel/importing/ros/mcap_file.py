"""MCAP files: messages in chunks, with or without an index."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.importing.ros.container import ChunkCache, Container, Message, log_time
from roboreel.importing.ros.mcap_index import HEAD, read_contents, unpack_chunk
from roboreel.importing.ros.unpacking import check_chunk_size
from roboreel.spans.reading import SpanReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["McapFile"]

_MESSAGE = 5
_CHUNK = 6
_MESSAGE_HEAD = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time


class McapFile(Container):
    """An MCAP file, open to be read.

    Raises:
        CorruptFileError: It is not MCAP, or its summary is damaged.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._stack = ExitStack()
        self._file = self._stack.enter_context(SpanReader(path, "MCAP file"))
        try:
            contents = read_contents(self._file)
        except BaseException:
            self.close()
            raise
        self._blocks = contents.blocks
        self.channels = contents.channels()
        self.remarks = contents.remarks
        self._cache = ChunkCache(self._load)

    @property
    def chunk_count(self) -> int:
        """How many blocks are read at once."""
        return len(self._blocks)

    def chunk_channels(self, chunk: int) -> frozenset[int] | None:
        """Return which channels have messages in a chunk; None if that is not known."""
        return self._blocks[chunk].channels

    def messages(self, chunk: int) -> Iterator[Message]:
        """Yield the messages of a chunk, in the order of the file."""
        data = self._cache[chunk]
        at = 0
        while at < len(data):
            kind, stop = self._record(data, at)
            if kind == _MESSAGE:
                number, _, log_ns, _ = _MESSAGE_HEAD.unpack_from(data, at + HEAD.size)
                if number not in self.channels:
                    raise CorruptFileError(
                        f"A message is of channel {number}, which is not described: "
                        f"{str(self.path)!r}."
                    )
                yield Message(number, log_time(log_ns, self.path), at, self._body(data, at, stop))
            at = stop

    def read(self, chunk: int, offset: int) -> memoryview:
        """Return the message at a place that `messages` told."""
        data = self._cache[chunk]
        _, stop = self._record(data, offset)
        return self._body(data, offset, stop)

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._stack.close()

    def _body(self, data: memoryview, at: int, stop: int) -> memoryview:
        return data[at + HEAD.size + _MESSAGE_HEAD.size : stop]

    def _record(self, data: memoryview, at: int) -> tuple[int, int]:
        if at + HEAD.size <= len(data):
            kind, length = HEAD.unpack_from(data, at)
            stop = at + HEAD.size + length
            if stop <= len(data) and (kind != _MESSAGE or length >= _MESSAGE_HEAD.size):
                return kind, stop
        raise CorruptFileError(f"A message is cut off inside its chunk: {str(self.path)!r}.")

    def _load(self, chunk: int) -> bytes:
        block = self._blocks[chunk]
        check_chunk_size(block.stop - block.start, self.path)
        data = self._file.read(block.start, block.stop)
        if not block.is_chunk:
            return data
        if len(data) < HEAD.size or data[0] != _CHUNK:
            raise CorruptFileError(
                f"The index names a chunk at byte {block.start:,}, where there is none: "
                f"{str(self.path)!r}."
            )
        return unpack_chunk(data[HEAD.size :], self.path)
