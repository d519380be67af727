"""Joint states of several publishers on one topic: each set of joints is a topic of its own. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roboreel.importing.ros.decoders import DECODE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from roboreel.importing.ros.decoders import Decoder

__all__ = ["JointSet", "joint_sets", "set_chooser"]


@dataclass(frozen=True, slots=True)
class JointSet:
    """Joints that come together in messages."""

    topic: str
    """What the topic of these messages is called: ``/joint_states``, ``/joint_states[gripper]``."""
    joints: frozenset[str]
    probe: Any
    """The first of the messages."""


def joint_sets(topic: str, messages: Iterable[Any]) -> list[JointSet]:
    """Return the sets of joints that messages speak of.

    A set is another one only if it shares no joint with those before: an arm and its gripper. The
    first keeps the topic's name, and others add the name of their first joint.

    Args:
        topic: Its name.
        messages: Some of its joint states.
    """
    found: list[JointSet] = []
    for message in messages:
        names = [str(name) for name in message.name]
        joints = frozenset(names)
        if names and all(not joints & known.joints for known in found):
            name = f"{topic}[{names[0]}]" if found else topic
            found.append(JointSet(name, joints, message))
    return found


def set_chooser(
    sets: list[JointSet], decoders: Mapping[int, Decoder]
) -> Callable[[int, memoryview], str]:
    """Return the function that says of which set's topic a message is, by its channel and bytes.

    One that fits none is of the first set: whoever asks for its values is told what it lacks.
    """

    def choose(channel: int, data: memoryview) -> str:
        try:
            joints = frozenset(map(str, decoders[channel].decode(data).name))
        except DECODE_ERRORS:
            return sets[0].topic
        return next((known.topic for known in sets if known.joints <= joints), sets[0].topic)

    return choose
