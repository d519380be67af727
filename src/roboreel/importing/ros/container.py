"""The nouns below a recording of messages: containers, their channels and chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from roboreel.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

__all__ = ["Channel", "ChunkCache", "Container", "Message", "log_time"]

_MOST_CACHED_BYTES = 32 * 1024**2
_LAST_NS = 2**63 - 1


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
        self.channels: dict[int, Channel] = {}
        """By number."""
        self.remarks: list[str] = []
        """Sentences on what is wrong with the file, and was tolerated."""
        self.distro: str | None = None
        """The distribution of ROS that recorded it, if the file says so."""

    @property
    @abstractmethod
    def chunk_count(self) -> int:
        """How many chunks there are."""

    def chunk_channels(self, chunk: int) -> frozenset[int] | None:
        """Return which channels have messages in a chunk; None if the file does not say."""
        return None

    @abstractmethod
    def messages(self, chunk: int) -> Iterator[Message]:
        """Yield the messages of a chunk, in the order of the file."""

    def messages_of(self, channels: Collection[int]) -> Iterator[Message]:
        """Yield the messages of some channels, in the order of the file; chunks without are skipped."""
        for chunk in range(self.chunk_count):
            inside = self.chunk_channels(chunk)
            if inside is None or inside & set(channels):
                for message in self.messages(chunk):
                    if message.channel in channels:
                        yield message

    @abstractmethod
    def read(self, chunk: int, offset: int) -> memoryview:
        """Return the message at a place that `messages` told."""

    @abstractmethod
    def close(self) -> None:
        """Close the file; closing twice does nothing."""


class ChunkCache:
    """The last few chunks, unpacked. Neighbouring streams often need the same ones.

    Args:
        load: Reads and unpacks a chunk.
    """

    def __init__(self, load: Callable[[int], bytes]) -> None:
        self._load = load
        self._chunks: OrderedDict[int, memoryview] = OrderedDict()
        self._bytes = 0

    def __getitem__(self, chunk: int) -> memoryview:
        if chunk in self._chunks:
            self._chunks.move_to_end(chunk)
            return self._chunks[chunk]
        self._make_room()
        found = memoryview(self._load(chunk))
        self._chunks[chunk] = found
        self._bytes += len(found)
        return found

    def _make_room(self) -> None:
        while self._chunks and self._bytes > _MOST_CACHED_BYTES:
            _, oldest = self._chunks.popitem(last=False)
            self._bytes -= len(oldest)


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
