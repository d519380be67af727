"""Topics of a container: their decoders, their first message, and the streams they have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from roboreel.errors import SourceError
from roboreel.importing.recording import Stream
from roboreel.importing.ros.cameras import (
    camera_kind,
    image_part,
    message_bytes,
    message_codec,
    packets_stream,
    picture_part,
)
from roboreel.importing.ros.decoders import DECODE_ERRORS, Decoder, make_decoder
from roboreel.importing.ros.joints import has_names, is_joint_state, joint_parts
from roboreel.importing.ros.packets import packet_size
from roboreel.importing.ros.parts import Part, list_parts, make_part
from roboreel.importing.ros.sharing import joint_sets, set_chooser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roboreel.importing.ros.container import Container
    from roboreel.importing.ros.nodes import Path
    from roboreel.importing.ros.sharing import JointSet
    from roboreel.importing.ros.types import RosTypes

__all__ = ["Topic", "open_topics"]

_PROBED_PACKETS = 300
"""Packets that are looked at for the first image: some seconds of video."""
_PROBED_STATES = 50
"""Joint states that are looked at for the publishers that share a topic."""


@dataclass(slots=True)
class Topic:
    """A topic: its channels, and what its messages become."""

    name: str
    type: str
    decoders: dict[int, Decoder] = field(default_factory=dict)
    """By channel."""
    parts: dict[str, Part] = field(default_factory=dict)
    """By the name of the stream."""
    probe: Any = None
    """The first message, decoded."""
    note: str = ""
    """Why its messages cannot be read, in words that follow its name."""
    codec: str | None = None
    """For packets of video."""
    chooser: Callable[[int, memoryview], str] | None = None
    """Says of which topic a message is, where several publishers of joint states share this one."""

    @property
    def has_header(self) -> bool:
        """Whether messages say themselves when they came to be."""
        return any(decoder.stamp is not None for decoder in self.decoders.values())

    def streams(self) -> list[Stream]:
        """Return the streams of the topic; one of kind ``other`` if nothing of it can be read."""
        if not self.parts:
            note = self.note[:1].upper() + self.note[1:]
            return [self._finish(Stream(self.name, "other", note=note))]
        return [self._finish(part.stream) for part in self.parts.values()]

    def add(self, path: Path, name: str) -> Stream:
        """Add the stream of a path that is not listed, under the name it was asked by.

        Raises:
            SourceError: There is none.
        """
        if not path and len(self.parts) == 1:
            part = next(iter(self.parts.values()))
        elif self.probe is None or not self.decoders:
            raise SourceError(f"{self.name!r} has no values to read: {self.note}")
        else:
            tree = next(iter(self.decoders.values())).tree
            part = make_part(self.name, tree, path, self.probe)
        self.parts[name] = replace(part, stream=replace(part.stream, name=name))
        return self._finish(self.parts[name].stream)

    def _finish(self, stream: Stream) -> Stream:
        clocks = ("log", "header") if self.has_header else ("log",)
        return replace(stream, clocks=clocks, source_type=self.type)  # type: ignore[arg-type]  # Clock


def open_topics(container: Container, types: RosTypes) -> dict[str, Topic]:
    """Return the topics of a container, in the order of the file."""
    topics: dict[str, Topic] = {}
    first = _first_messages(container)
    for number, channel in container.channels.items():
        topic = topics.setdefault(channel.topic, Topic(channel.topic, channel.type))
        if channel.type != topic.type:
            topic.note = f"its messages are of two types, {topic.type!r} and {channel.type!r}."
            continue
        try:
            topic.decoders[number] = make_decoder(channel, types, first.get(number))
        except SourceError as error:
            topic.note = topic.note or str(error)
        except DECODE_ERRORS as error:
            topic.note = topic.note or f"its first message cannot be decoded: {error}."
    for topic in list(topics.values()):
        if not topic.note:
            _describe(container, topic, first)
            topics |= _shared_topics(container, topic)
    return topics


def _shared_topics(container: Container, topic: Topic) -> dict[str, Topic]:
    """Return topics for the further publishers of joint states on a topic."""
    tree = next(iter(topic.decoders.values())).tree if topic.decoders else None
    if topic.note or tree is None or not is_joint_state(topic.type, tree):
        return {}
    try:
        sets = joint_sets(topic.name, _first_decoded(container, topic, _PROBED_STATES))
        others = {
            one.topic: Topic(one.topic, topic.type, topic.decoders, _by_name(one), one.probe)
            for one in sets[1:]
        }
    except DECODE_ERRORS:  # Whoever asks for the values of that message is told.
        return {}
    if others:
        topic.chooser = set_chooser(sets, topic.decoders)
    return others


def _by_name(one: JointSet) -> dict[str, Part]:
    return {part.stream.name: part for part in joint_parts(one.topic, one.probe)}


def _first_messages(container: Container) -> dict[int, memoryview]:
    """Return the first message of each channel that has one."""
    first = {}
    for number in container.channels:
        for message in container.messages_of([number]):
            first[number] = memoryview(bytes(message.data))
            break
    return first


def _describe(container: Container, topic: Topic, first: dict[int, memoryview]) -> None:
    number = next((number for number in topic.decoders if number in first), None)
    if number is None:
        topic.note = "it has no messages."
        return
    decoder = topic.decoders[number]
    try:
        topic.probe = decoder.decode(first[number])
        parts = _parts(container, topic, decoder)
    except SourceError as error:
        topic.note = str(error)
        return
    except DECODE_ERRORS as error:
        topic.note = f"its first message cannot be decoded: {error}."
        return
    topic.parts = {part.stream.name: part for part in parts}
    if not parts:
        topic.note = f"a message of type {topic.type!r} has no numbers or texts of its own."


def _parts(container: Container, topic: Topic, decoder: Decoder) -> list[Part]:
    probe = topic.probe
    if is_joint_state(topic.type, decoder.tree) and has_names(probe):
        return joint_parts(topic.name, probe)
    match camera_kind(topic.type, decoder.tree, probe):
        case "raw":
            return [image_part(topic.name, probe)]
        case "picture":
            return [picture_part(topic.name, probe)]
        case "packets":
            return [_packet_part(container, topic)]
    return list_parts(topic.name, decoder.tree, probe)


def _packet_part(container: Container, topic: Topic) -> Part:
    topic.codec = message_codec(topic.probe)
    if topic.codec is None:
        named = getattr(topic.probe, "format", "") or getattr(topic.probe, "encoding", "")
        raise SourceError(f"its video is {str(named)[:40]!r}: h264, hevc and av1 are read.")
    size = packet_size(_first_packets(container, topic), topic.codec)
    if size is None:
        raise SourceError(
            f"its first {_PROBED_PACKETS} packets of {topic.codec} decode to no image: there is no "
            "keyframe among them."
        )
    return Part(packets_stream(topic.name, topic.codec, size), message_bytes)


def _first_packets(container: Container, topic: Topic) -> list[bytes]:
    return [message_bytes(one) for one in _first_decoded(container, topic, _PROBED_PACKETS)]


def _first_decoded(container: Container, topic: Topic, most: int) -> Iterator[Any]:
    """Yield the first messages of a topic."""
    for message in islice(container.messages_of(topic.decoders), most):
        yield topic.decoders[message.channel].decode(memoryview(bytes(message.data)))
