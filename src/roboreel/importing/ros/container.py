"""Files of messages: their channels, and their chunks, which are unpacked one at a time."""

from __future__ import annotations

import bz2
from abc import ABC, abstractmethod
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import lz4.frame
import zstandard

from roboreel.errors import CorruptFileError, TooLargeError
from roboreel.io.reading import SpanReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_MOST_CACHED_BYTES = 32 * 1024**2
_LAST_NS = 2**63 - 1
MOST_CHUNK_BYTES = 1024**3
"""The largest chunk that is read: recorders write some megabytes each."""


@dataclass(frozen=True, slots=True)
class Channel:
    """Where messages of one type come from. A topic has one or several."""

    topic: str
    type: str
    """As the file calls it: ``sensor_msgs/msg/JointState``, ``foxglove.CompressedImage``."""
    encoding: str
    """Of the messages: ``ros1``, ``cdr``, ``json``, ``protobuf``."""
    definition_format: str = ""
    """``ros1msg``, ``ros2msg``, ``ros2idl``, ``jsonschema``, ``protobuf``; empty if there is none."""
    definition: bytes = b""


class Message(NamedTuple):
    """One message as it lies in its container."""

    channel: int
    log_ns: int
    """When it was written."""
    offset: int
    """Where it is in its chunk, for `Container.read`."""
    data: memoryview
    """Valid until the next message is asked for."""


class Container(ABC):
    """A file of messages, in chunks that are read one at a time.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.chunk_count = 0
        self.channels: dict[int, Channel] = {}
        """By number."""
        self.remarks: list[str] = []
        """Sentences on what is wrong with the file, and was tolerated."""
        self.distro: str | None = None
        """The distribution of ROS that recorded it, if the file says so."""

    @abstractmethod
    def chunk_channels(self, chunk: int) -> Collection[int]:
        """Return which channels have messages in a chunk."""

    @abstractmethod
    def messages(self, chunk: int, channels: Collection[int] | None = None) -> Iterator[Message]:
        """Yield the messages of a chunk in the order of the file: of some channels, or of all."""

    def messages_of(self, channels: Collection[int]) -> Iterator[Message]:
        """Yield the messages of some channels, in the order of the file; chunks without are skipped."""
        for chunk in range(self.chunk_count):
            if set(channels).intersection(self.chunk_channels(chunk)):
                yield from self.messages(chunk, channels)

    @abstractmethod
    def read(self, chunk: int, offset: int) -> memoryview:
        """Return the message at an offset that `messages` gave."""

    @abstractmethod
    def close(self) -> None:
        """Close the file; closing twice does nothing."""


class Record(NamedTuple):
    """One record of a chunk: where its content lies, and what it is."""

    start: int
    stop: int
    channel: int | None
    """None if it is not a message."""
    log_ns: int = 0


@dataclass(slots=True)
class Chunk:
    """Where messages lie that are read at once."""

    start: int
    stop: int
    channels: set[int] = field(default_factory=set)
    """Whose messages it has, as the file lists them behind the chunk."""
    is_packed: bool = True
    """Whether the messages are inside one record, rather than records themselves."""


class ChunkedFile(Container):
    """A file whose chunks are unpacked one at a time; the last few are kept.

    Its records are walked through once, over the chunks. An index of the whole file is not needed for
    that: a file that was cut off has none, and both are read in the same way.

    Args:
        path: The file.
        noun: What the file is, for errors.
    """

    def __init__(self, path: Path, noun: str) -> None:
        super().__init__(path)
        self._stack = ExitStack()
        self._file = self._stack.enter_context(SpanReader(path, noun))
        self._chunks: list[Chunk] = []
        self._unpacked: OrderedDict[int, memoryview] = OrderedDict()
        try:
            self.walk()
            self.chunk_count = len(self._chunks)
            for number, chunk in enumerate(self._chunks):
                # Where the list behind it is missing, or names what is described in it alone.
                if not chunk.channels or not chunk.channels <= self.channels.keys():
                    chunk.channels = self._channels_inside(number)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def walk(self) -> None:
        """Note the chunks, and the channels that are described outside of them."""

    @abstractmethod
    def load(self, chunk: Chunk) -> bytes:
        """Return the records of a chunk, unpacked."""

    @abstractmethod
    def record(self, data: memoryview, at: int) -> Record:
        """Return the record at a byte of an unpacked chunk."""

    @abstractmethod
    def describe(self, data: memoryview, at: int) -> None:
        """Note the channel that the record at a byte of an unpacked chunk describes, if it does."""

    def chunk_channels(self, chunk: int) -> Collection[int]:
        """Return which channels have messages in a chunk."""
        return self._chunks[chunk].channels

    def messages(self, chunk: int, channels: Collection[int] | None = None) -> Iterator[Message]:
        """Yield the messages of a chunk: see `Container.messages`."""
        data, at = self.unpacked(chunk), 0
        while at < len(data):
            start, stop, channel, log_ns = self.record(data, at)
            if channel is not None and channel not in self.channels:
                raise CorruptFileError(
                    f"A message is of channel {channel}, which is not described: {str(self.path)!r}."
                )
            if channel is not None and (channels is None or channel in channels):
                yield Message(channel, log_time(log_ns, self.path), at, data[start:stop])
            at = stop

    def read(self, chunk: int, offset: int) -> memoryview:
        """Return the message at an offset that `messages` gave."""
        data = self.unpacked(chunk)
        record = self.record(data, offset)
        return data[record.start : record.stop]

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._stack.close()

    def unpacked(self, chunk: int) -> memoryview:
        """Return a chunk, unpacked. Neighbouring streams often need the same ones."""
        if chunk not in self._unpacked:
            while sum(map(len, self._unpacked.values())) > _MOST_CACHED_BYTES:
                self._unpacked.popitem(last=False)
            place = self._chunks[chunk]
            check_chunk_size(place.stop - place.start, self.path)
            self._unpacked[chunk] = memoryview(self.load(place))
        self._unpacked.move_to_end(chunk)
        return self._unpacked[chunk]

    def _channels_inside(self, chunk: int) -> set[int]:
        """Return whose messages a chunk has, and note the channels that it describes."""
        data, at, channels = self.unpacked(chunk), 0, set()
        while at < len(data):
            record = self.record(data, at)
            if record.channel is None:
                self.describe(data, at)
            else:
                channels.add(record.channel)
            at = record.stop
        return channels


def log_time(nanoseconds: int, path: Path) -> int:
    """Return a time of the file if it is one.

    Raises:
        CorruptFileError: It lies after the year 2262.
    """
    if not 0 <= nanoseconds <= _LAST_NS:
        raise CorruptFileError(
            f"A message was written at {nanoseconds} ns, which is no time: {str(path)!r}."
        )
    return nanoseconds


def unpack(packed: bytes, compression: str, size_bytes: int, path: Path) -> bytes:
    """Return the contents of a chunk.

    Args:
        packed: The chunk's bytes.
        compression: ``lz4``, ``zstd``, ``bz2``; empty or ``none`` if there is none.
        size_bytes: How many bytes they unpack to, as the file declares.
        path: The file, for errors.

    Raises:
        TooLargeError: They would be more than is ever read at once.
        CorruptFileError: They are other bytes than were packed, or more or fewer than declared.
    """
    check_chunk_size(size_bytes, path)
    contents = _contents(packed, compression, size_bytes, path)
    if len(contents) != size_bytes:
        more = "more" if len(contents) > size_bytes else f"{len(contents):,}"
        raise CorruptFileError(
            f"A chunk declares {size_bytes:,} bytes and has {more}: {str(path)!r}."
        )
    return contents


def unpack_message(packed: bytes, path: Path) -> bytes:
    """Return a message that was compressed with zstd by itself.

    Raises:
        TooLargeError: It would be larger than is ever read at once.
        CorruptFileError: It cannot be unpacked.
    """
    try:
        size_bytes = zstandard.get_frame_parameters(packed).content_size
    except zstandard.ZstdError as error:
        raise CorruptFileError(f"A message is not zstd ({error}): {str(path)!r}.") from error
    if size_bytes == zstandard.CONTENTSIZE_UNKNOWN:
        return _contents(packed, "zstd", MOST_CHUNK_BYTES, path)
    return unpack(packed, "zstd", size_bytes, path)


def check_chunk_size(size_bytes: int, path: Path) -> None:
    """Raise if a chunk is larger than is ever read at once."""
    if size_bytes > MOST_CHUNK_BYTES:
        raise TooLargeError(
            f"A chunk has {size_bytes:,} bytes: at most {MOST_CHUNK_BYTES:,} are read at once. "
            f"Write the file again with smaller chunks: {str(path)!r}."
        )


def _contents(packed: bytes, compression: str, size_bytes: int, path: Path) -> bytes:
    most = size_bytes + 1  # One more than declared shows that there is more.
    try:
        match compression:
            case "" | "none":
                return packed
            case "lz4":
                unpacker = lz4.frame.LZ4FrameDecompressor()
                lz4_contents: bytes = unpacker.decompress(packed, max_length=most)
                return lz4_contents
            case "zstd":
                with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
                    return reader.read(most)
            case "bz2":
                return bz2.BZ2Decompressor().decompress(packed, max_length=most)
    except (RuntimeError, zstandard.ZstdError, OSError, EOFError, ValueError) as error:
        raise CorruptFileError(
            f"A chunk cannot be unpacked ({compression}: {error}): {str(path)!r}."
        ) from error
    raise CorruptFileError(
        f"The chunks are packed with {compression[:40]!r}: lz4, zstd and bz2 are read: {str(path)!r}."
    )
