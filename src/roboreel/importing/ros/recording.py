"""ROS bags and MCAP files as recordings: their topics are streams with times."""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.importing.opening import is_mcap, is_ros1_bag
from roboreel.importing.recording import Recording, SourceEpisode, Stream
from roboreel.importing.ros.bag1 import BagFile
from roboreel.importing.ros.cameras import message_bytes
from roboreel.importing.ros.db3 import SqliteFile
from roboreel.importing.ros.decoders import DECODE_ERRORS
from roboreel.importing.ros.folder import open_folder
from roboreel.importing.ros.mcap_file import McapFile
from roboreel.importing.ros.packets import PacketWatch
from roboreel.importing.ros.parts import split_name
from roboreel.importing.ros.topics import Topic, open_topics
from roboreel.importing.ros.types import DISTROS, RosTypes
from roboreel.text import readable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.importing.recording import Clock, Values
    from roboreel.importing.ros.container import Container


def open_source(path: Path, *, distro: str | None = None) -> MessageRecording:
    """Open a ROS bag or an MCAP file to be read.

    Args:
        path: A file, or the folder of a ROS 2 bag.
        distro: The distribution of ROS that recorded it, for files without definitions of types.

    Raises:
        CorruptFileError: It is damaged.
        SourceError: The distribution is not known.
    """
    container, layout = _open_container(path)
    try:
        return MessageRecording(container, layout, distro)
    except BaseException:
        container.close()
        raise


def _open_container(path: Path) -> tuple[Container, str]:
    if path.is_dir():
        return open_folder(path), "ros2"
    if is_mcap(path):
        return McapFile(path), "mcap"
    if is_ros1_bag(path):
        return BagFile(path), "ros1"
    return SqliteFile(path), "ros2"


class MessageRecording(Recording):
    """A ROS bag or an MCAP file, open to be read.

    It has one episode. Streams are named ``topic:path``, such as ``/odom:pose.pose``; those that
    are listed are found by themselves, and any other path can be asked for by its name.

    Args:
        container: The file. It is closed with this.
        layout: ``mcap``, ``ros1`` or ``ros2``.
        distro: The distribution of ROS that recorded it; as the file says if not given.

    Raises:
        SourceError: The distribution is not known.
    """

    def __init__(self, container: Container, layout: str, distro: str | None) -> None:
        self._container = container
        known = container.distro if container.distro in DISTROS else None
        self._topics = open_topics(container, RosTypes(distro or known))
        listed = [(topic, stream) for topic in self._topics.values() for stream in topic.streams()]
        self._topic_of = {stream.name: topic for topic, stream in listed}
        episode = SourceEpisode(
            container.path.stem if container.path.is_file() else container.path.name
        )
        super().__init__(
            container.path,
            layout,
            {stream.name: stream for _, stream in listed},
            [episode],
            timed=True,
        )
        self.remarks = tuple(container.remarks)

    def stream(self, name: str) -> Stream:
        """Return a stream by its name; any path of a topic can be asked for."""
        if name not in self.streams:
            try:
                found = split_name(name, list(self._topics))
                if found is not None:
                    self._topic_of[name] = self._topics[found[0]]
                    self.streams[name] = self._topic_of[name].add(found[1], name)
            except SourceError as error:
                raise SourceError(f"{error} In {str(self.path)!r}.") from error
        return super().stream(name)

    def count(self, episode: int, stream: str) -> int:
        """Return how many messages the topic of a stream has."""
        return len(self._indexes[self._topic(stream).name].log_ns)

    def times(self, episode: int, stream: str, clock: Clock = "log") -> NDArray[np.int64]:
        """Return the times of a topic, read-only: see `Recording.times`."""
        if clock not in self.stream(stream).clocks:
            raise SourceError(
                f"{stream!r} has no times of the clock {clock!r}: {str(self.path)!r}."
            )
        index = self._indexes[self._topic(stream).name]
        return index.log_ns if clock == "log" else index.header_ns

    def keyframes(self, episode: int, stream: str) -> NDArray[np.bool_]:
        """Return where decoding can start: see `Recording.keyframes`."""
        topic = self._topic(stream)
        watch = self._indexes[topic.name].watch
        if self.stream(stream).kind != "packets" or watch is None:
            return super().keyframes(episode, stream)
        if watch.problem:
            raise SourceError(f"{topic.name!r}: {watch.problem}: {str(self.path)!r}.")
        return np.frombuffer(bytes(watch.keys), np.bool_)

    def _read(self, episode: int, wanted: Mapping[str, NDArray[np.int64]]) -> dict[str, Values]:
        """Return values of several streams; messages are decoded once: see `Recording.read`."""
        values = {
            name: _empty(self.stream(name), len(positions)) for name, positions in wanted.items()
        }
        needed: dict[tuple[int, int, str, int], list[tuple[str, int]]] = {}
        for name, positions in wanted.items():
            topic = self._topic(name).name
            index = self._indexes[topic]
            for i, position in enumerate(positions.tolist()):
                key = (int(index.chunk[position]), int(index.offset[position]), topic, position)
                needed.setdefault(key, []).append((name, i))
        # Sorted, so that messages are read in the order of the file.
        for key in sorted(needed):
            message, taken = self._decode(*key), dict[str, Any]()
            for name, i in needed[key]:
                if name not in taken:
                    taken[name] = self._take(name, message, key[3])
                values[name][i] = taken[name]
        return values

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._container.close()

    def _decode(self, chunk: int, offset: int, name: str, position: int) -> Any:  # noqa: ANN401
        topic, data = self._topics[name], self._container.read(chunk, offset)
        try:
            return topic.decoders[int(self._indexes[name].channel[position])].decode(data)
        except DECODE_ERRORS as error:
            raise CorruptFileError(
                f"Message {position} of {topic.name!r} cannot be decoded as {topic.type!r} "
                f"({readable(str(error))[:200]}): {str(self.path)!r}."
            ) from error

    def _take(self, stream: str, message: Any, position: int) -> Any:  # noqa: ANN401
        topic = self._topic(stream)
        try:
            value = topic.parts[stream].take(message)
        except SourceError as error:
            raise SourceError(
                f"Message {position} of {topic.name!r} {error}: {str(self.path)!r}."
            ) from error
        except DECODE_ERRORS as error:
            raise CorruptFileError(
                f"Message {position} of {topic.name!r} cannot be read ({readable(str(error))[:200]}): "
                f"{str(self.path)!r}."
            ) from error
        watch = self._indexes[topic.name].watch
        return value if watch is None else watch.added_sets.get(position, b"") + value

    def _topic(self, stream: str) -> Topic:
        self.stream(stream)
        return self._topic_of[stream]

    @cached_property
    def _indexes(self) -> dict[str, TopicIndex]:
        """Where the messages of each topic are, found by one pass over the file."""
        indexes = {name: TopicIndex(topic) for name, topic in self._topics.items()}
        for chunk in range(self._container.chunk_count):
            for number, log_ns, offset, data in self._container.messages(chunk):
                topic = self._topics[self._container.channels[number].topic]
                name = topic.chooser(number, data) if topic.chooser else topic.name
                indexes[name].add((chunk, offset, number, log_ns), data)
        for index in indexes.values():
            index.finish()
        return indexes


def _empty(stream: Stream, count: int) -> Any:  # noqa: ANN401  # an array or a list
    if stream.kind in ("numbers", "images"):
        return np.empty((count, *stream.shape), stream.dtype)
    return [None] * count


class TopicIndex:
    """Where the messages of a topic are and when they were, in the order of the file: 40 bytes each.

    Args:
        topic: The topic.
    """

    def __init__(self, topic: Topic) -> None:
        self._decoders = topic.decoders
        self._noted = array("q")
        self.watch = None if topic.codec is None else PacketWatch(topic.codec)
        """What is found out about packets of video."""

    def add(self, noted: tuple[int, int, int, int], data: memoryview) -> None:
        """Note the next message: its chunk, offset, channel and log time."""
        self._noted.extend(noted)
        decoder = self._decoders.get(noted[2])
        stamp, packet = 0, b""
        try:
            if decoder is not None and decoder.stamp is not None:
                stamp = max(min(decoder.stamp(data), 2**63 - 1), -(2**63))
            if decoder is not None and self.watch is not None:
                packet = message_bytes(decoder.decode(data))
        except DECODE_ERRORS:
            pass  # A damaged message: reading its values raises.
        self._noted.append(stamp)
        if self.watch is not None:
            self.watch.add(packet)

    def finish(self) -> None:
        """Turn what was noted into columns; a header's time is 0 where a message has none."""
        columns = np.asarray(self._noted, np.int64).reshape(-1, 5)
        columns.flags.writeable = False  # Callers get times without a copy.
        self.chunk, self.offset, self.channel, self.log_ns, self.header_ns = columns.T
