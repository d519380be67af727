"""Joint states: values by the names of joints, whatever their order in a message."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.recording import Stream
from roboreel.importing.ros.parts import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from roboreel.importing.ros.nodes import Group

__all__ = ["has_names", "is_joint_state", "joint_parts"]

_FIELDS = ("position", "velocity", "effort")


def is_joint_state(kind: str, tree: Group) -> bool:
    """Return whether messages are ``sensor_msgs/JointState`` or of the same form."""
    return kind.endswith("JointState") and {"name", "position"} <= set(tree.fields)


def has_names(probe: Any) -> bool:  # noqa: ANN401  # a joint state
    """Return whether a joint state names its joints; some drivers leave that out."""
    return len(probe.name) > 0


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
        Part(_stream(topic, field, joints), _taker(field, joints))
        for field in _FIELDS
        if len(joints) and len(getattr(probe, field, ())) == len(joints)
    ]


def _stream(topic: str, field: str, joints: tuple[str, ...]) -> Stream:
    stream = Stream(f"{topic}:{field}", "numbers", dtype="float64", shape=(len(joints),))
    return replace(stream, names=joints)


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
