"""Topics of a container: their decoders, their first message, and the streams they have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.recording import Stream
from roboreel.importing.ros.cameras import (
    camera_kind,
    image_part,
    message_bytes,
    message_codec,
    picture_part,
)
from roboreel.importing.ros.decoders import DECODE_ERRORS, Decoder, make_decoder
from roboreel.importing.ros.packets import packet_size
from roboreel.importing.ros.parts import Part, list_parts, make_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.importing.ros.container import Container
    from roboreel.importing.ros.nodes import Group, Path
    from roboreel.importing.ros.types import RosTypes


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

    @property
    def tree(self) -> Group:
        """What its messages consist of."""
        return next(iter(self.decoders.values())).tree

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
            part = make_part(self.name, self.tree, path, self.probe)
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
        except DECODE_ERRORS as error:
            topic.note = topic.note or _why_unreadable(error)
    for topic in list(topics.values()):
        if not topic.note:
            _describe(container, topic, first)
            topics |= _shared_topics(container, topic)
    return topics


def _shared_topics(container: Container, topic: Topic) -> dict[str, Topic]:
    """Return topics for the further publishers of joint states on a topic, such as a gripper's.

    Joints are of another publisher only if none of them is of those before. The first keeps the
    topic's name, and others add the name of their first joint.
    """
    if not topic.parts or not is_joint_state(topic.type, topic.tree):
        return {}
    by_joints: dict[frozenset[str], Topic] = {}
    try:
        for message in _first_decoded(container, topic, _PROBED_STATES):
            names = [str(name) for name in message.name]
            joints = frozenset(names)
            if not names or any(joints & known for known in by_joints):
                continue
            by_joints[joints] = topic
            if len(by_joints) > 1:
                own = Topic(f"{topic.name}[{names[0]}]", topic.type, topic.decoders, probe=message)
                own.parts = _by_name(joint_parts(own.name, message))
                by_joints[joints] = own
    except DECODE_ERRORS:  # Whoever asks for the values of that message is told.
        return {}
    if len(by_joints) > 1:
        topic.chooser = _chooser(by_joints, topic)
    return {own.name: own for own in by_joints.values() if own is not topic}


def _chooser(
    by_joints: Mapping[frozenset[str], Topic], first: Topic
) -> Callable[[int, memoryview], str]:
    """Return a function from channel and bytes of a message to the topic of its publisher.

    A message that fits none belongs to the first: reading its values then names the missing joint.
    """

    def choose(channel: int, data: memoryview) -> str:
        try:
            joints = frozenset(map(str, first.decoders[channel].decode(data).name))
        except DECODE_ERRORS:
            return first.name
        return next((own.name for known, own in by_joints.items() if known <= joints), first.name)

    return choose


def _by_name(parts: list[Part]) -> dict[str, Part]:
    return {part.stream.name: part for part in parts}


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
        topic.parts = _by_name(_parts(container, topic, decoder))
        if not topic.parts:
            topic.note = f"a message of type {topic.type!r} has no numbers or texts of its own."
    except DECODE_ERRORS as error:
        topic.note = _why_unreadable(error)


def _why_unreadable(error: Exception) -> str:
    """Return why messages cannot be read, in words that follow the topic's name."""
    if isinstance(error, SourceError):
        return str(error)
    return f"its first message cannot be decoded: {error}."


def _parts(container: Container, topic: Topic, decoder: Decoder) -> list[Part]:
    probe = topic.probe
    # Some drivers do not name the joints.
    if is_joint_state(topic.type, decoder.tree) and len(probe.name) > 0:
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
    first = _first_decoded(container, topic, _PROBED_PACKETS)
    size = packet_size(map(message_bytes, first), topic.codec)
    if size is None:
        raise SourceError(
            f"its first {_PROBED_PACKETS} packets of {topic.codec} decode to no image: there is no "
            "keyframe among them."
        )
    stream = Stream(topic.name, "packets", "uint8", (*size, 3), codec=topic.codec)
    return Part(stream, message_bytes)


def _first_decoded(container: Container, topic: Topic, most: int) -> Iterator[Any]:
    """Yield the first messages of a topic."""
    for message in islice(container.messages_of(topic.decoders), most):
        yield topic.decoders[message.channel].decode(memoryview(bytes(message.data)))


# Joint states: values by the names of joints, whatever their order in a message.

_FIELDS = ("position", "velocity", "effort")


def is_joint_state(kind: str, tree: Group) -> bool:
    """Return whether messages are ``sensor_msgs/JointState`` or of the same form."""
    return kind.endswith("JointState") and {"name", "position"} <= set(tree.fields)


def joint_parts(topic: str, probe: Any) -> list[Part]:  # noqa: ANN401  # a joint state
    """Return the streams of joint states: position, velocity and effort, as far as they are sent.

    The names of the first message say which joints there are, and in which order. Other messages may
    have them in another order, and further ones, which are left out.

    Args:
        topic: Its name.
        probe: Its first message.

    Raises:
        SourceError: Two joints of it have one name.
    """
    joints = tuple(str(name) for name in probe.name)
    if len(set(joints)) != len(joints):
        raise SourceError("two joints of its first message have the same name.")
    return [
        Part(
            Stream(f"{topic}:{field}", "numbers", "float64", (len(joints),), joints),
            _taker(field, joints),
        )
        for field in _FIELDS
        if len(joints) and len(getattr(probe, field, ())) == len(joints)
    ]


def _taker(field: str, joints: tuple[str, ...]) -> Callable[[Any], NDArray[np.float64]]:
    expected = list(joints)
    places: dict[tuple[str, ...], list[int]] = {}

    def take(message: Any) -> NDArray[np.float64]:  # noqa: ANN401  # a joint state
        values = np.asarray(getattr(message, field), np.float64)
        names = list(message.name)
        if len(values) != len(names):
            raise SourceError(
                f"has {len(names)} joints and {len(values)} values of {field}: leave {field} out of "
                "the mapping"
            )
        if names == expected:
            return values
        key = tuple(names)
        if key not in places:
            if len(places) > 1000:
                places.clear()
            places[key] = _places(names, expected)
        return values[places[key]]

    return take


def _places(names: list[str], expected: list[str]) -> list[int]:
    by_name = {name: place for place, name in enumerate(names)}
    if len(by_name) != len(names):
        raise SourceError("has two joints of the same name")
    missing = [name for name in expected if name not in by_name]
    if missing:
        raise SourceError(
            f"lacks the joint {missing[0]!r}, which the first message has: it has "
            f"{', '.join(names) or 'none'}"
        )
    return [by_name[name] for name in expected]
