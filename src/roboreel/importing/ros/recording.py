"""MessageRecording: topics of a ROS bag or an MCAP file as streams with times."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.importing.recording import Recording, SourceEpisode, Stream
from roboreel.importing.ros.cameras import message_bytes
from roboreel.importing.ros.decoders import DECODE_ERRORS
from roboreel.importing.ros.index import TopicIndex, TopicScan, scan
from roboreel.importing.ros.packets import PacketWatch
from roboreel.importing.ros.parts import Part, split_name
from roboreel.importing.ros.topics import Topic, open_topics
from roboreel.importing.ros.types import DISTROS, RosTypes
from roboreel.text import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.importing.recording import Clock, Values
    from roboreel.importing.ros.container import Container

__all__ = ["MessageRecording"]


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
        told = container.distro if container.distro in DISTROS else None
        self._topics = open_topics(container, RosTypes(distro or told))
        streams = [stream for topic in self._topics.values() for stream in topic.streams()]
        episode = SourceEpisode(
            container.path.stem if container.path.is_file() else container.path.name
        )
        super().__init__(
            container.path,
            layout,
            {stream.name: stream for stream in streams},
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
                    topic, path = found
                    self.streams[name] = self._topics[topic].add(path, name)
            except SourceError as error:
                raise SourceError(f"{error} In {str(self.path)!r}.") from error
        return super().stream(name)

    def count(self, episode: int, stream: str) -> int:
        """Return how many messages the topic of a stream has."""
        self._check_episode(episode)
        return len(self._indexes[self._topic(stream).name])

    def times(self, episode: int, stream: str, clock: Clock = "log") -> NDArray[np.int64]:
        """Return the times of a topic, read-only: see `Recording.times`."""
        self._check_episode(episode)
        if clock not in self.stream(stream).clocks:
            raise SourceError(
                f"{stream!r} has no times of the clock {clock!r}: {str(self.path)!r}."
            )
        index = self._indexes[self._topic(stream).name]
        return index.log_ns if clock == "log" else index.header_ns

    def keyframes(self, episode: int, stream: str) -> NDArray[np.bool_]:
        """Return where decoding can start: see `Recording.keyframes`."""
        self._check_episode(episode)
        topic = self._topic(stream)
        if self.stream(stream).kind != "packets":
            return super().keyframes(episode, stream)
        watch = self._watch(topic)
        if watch.problem:
            raise SourceError(f"{topic.name!r}: {watch.problem}: {str(self.path)!r}.")
        return np.frombuffer(bytes(watch.keys), np.bool_)

    def read(self, episode: int, wanted: Mapping[str, NDArray[np.int64]]) -> dict[str, Values]:
        """Return values of several streams; messages are decoded once: see `Recording.read`."""
        self.check_wanted(episode, wanted)
        values = {
            name: _room(self.stream(name), len(positions)) for name, positions in wanted.items()
        }
        for topic, position, takers in self._requests(wanted):
            message = self._decode(topic, position)
            for name, part, places in takers:
                value = self._take(topic, part, message, position)
                for place in places:
                    values[name][place] = value
        return values

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._container.close()

    def _requests(
        self, wanted: Mapping[str, NDArray[np.int64]]
    ) -> list[tuple[Topic, int, list[tuple[str, Part, list[int]]]]]:
        """Return which messages are needed for which values, in the order of the file."""
        needed: dict[tuple[str, int], dict[str, list[int]]] = {}
        for name, positions in wanted.items():
            topic = self._topic(name).name
            for place, position in enumerate(positions.tolist()):
                needed.setdefault((topic, position), {}).setdefault(name, []).append(place)

        def where(key: tuple[str, int]) -> tuple[int, int]:
            index = self._indexes[key[0]]
            return int(index.chunk[key[1]]), int(index.offset[key[1]])

        return [
            (
                self._topics[topic],
                position,
                [
                    (name, self._topics[topic].parts[name], places)
                    for name, places in needed[topic, position].items()
                ],
            )
            for topic, position in sorted(needed, key=where)
        ]

    def _decode(self, topic: Topic, position: int) -> Any:  # noqa: ANN401  # a message
        index = self._indexes[topic.name]
        data = self._container.read(int(index.chunk[position]), int(index.offset[position]))
        try:
            return topic.decoders[int(index.channel[position])].decode(data)
        except DECODE_ERRORS as error:
            raise CorruptFileError(
                f"Message {position} of {topic.name!r} cannot be decoded as {topic.type!r} "
                f"({readable(str(error))[:200]}): {str(self.path)!r}."
            ) from error

    def _take(self, topic: Topic, part: Part, message: Any, position: int) -> Any:  # noqa: ANN401
        try:
            value = part.take(message)
        except SourceError as error:
            raise SourceError(
                f"Message {position} of {topic.name!r} {error}: {str(self.path)!r}."
            ) from error
        except DECODE_ERRORS as error:
            raise CorruptFileError(
                f"Message {position} of {topic.name!r} cannot be read ({readable(str(error))[:200]}): "
                f"{str(self.path)!r}."
            ) from error
        if topic.codec is not None:
            return self._watch(topic).added_sets.get(position, b"") + value
        return value

    def _topic(self, stream: str) -> Topic:
        self.stream(stream)
        # By its listed name first: fields of JSON may be called anything, also what is no path.
        for topic in self._topics.values():
            if stream in topic.parts:
                return topic
        found = split_name(stream, list(self._topics))
        if found is None:
            raise SourceError(f"There is no topic of {stream!r}: {str(self.path)!r}.")
        return self._topics[found[0]]

    def _watch(self, topic: Topic) -> PacketWatch:
        self._indexes  # noqa: B018  # the pass over the file that fills the watch
        watch = self._scans[topic.name].watch
        if watch is None:
            raise SourceError(f"{topic.name!r} does not hold video packets: {str(self.path)!r}.")
        return watch

    def _check_episode(self, episode: int) -> None:
        if episode != 0:
            raise SourceError(f"There is no episode {episode}: there is 1, in {str(self.path)!r}.")

    @cached_property
    def _scans(self) -> dict[str, TopicScan]:
        return {name: _scan_of(topic) for name, topic in self._topics.items()}

    @cached_property
    def _indexes(self) -> dict[str, TopicIndex]:
        topic_of = {number: channel.topic for number, channel in self._container.channels.items()}
        choosers = {name: topic.chooser for name, topic in self._topics.items() if topic.chooser}
        return scan(self._container, topic_of, self._scans, choosers)


def _scan_of(topic: Topic) -> TopicScan:
    stamps = {
        number: decoder.stamp
        for number, decoder in topic.decoders.items()
        if decoder.stamp is not None
    }
    if topic.codec is None:
        return TopicScan(stamps)

    def packet_of(number: int, data: memoryview) -> bytes:
        try:
            return message_bytes(topic.decoders[number].decode(data))
        except DECODE_ERRORS:
            return b""  # A damaged message; whoever asks for its values is told.

    return TopicScan(stamps, packet_of, PacketWatch(topic.codec))


def _room(stream: Stream, count: int) -> Any:  # noqa: ANN401  # an array or a list
    if stream.kind in ("numbers", "images"):
        return np.empty((count, *stream.shape), stream.dtype)
    return [None] * count
