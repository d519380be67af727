"""Parts of a message that become streams: numbers, vectors and texts, by the path of their fields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.recording import Stream
from roboreel.importing.ros.nodes import (
    Group,
    Many,
    Number,
    Text,
    find,
    getter,
    numbers_of,
    parse_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from roboreel.importing.ros.nodes import Node, Path

_NOT_LISTED = ("std_msgs/msg/Header", "std_msgs/msg/MultiArrayLayout", "google.protobuf.Timestamp")
_MOST_LISTED = 64


@dataclass(frozen=True, slots=True)
class Part:
    """A stream of a topic, and how its values are taken out of messages."""

    stream: Stream
    take: Callable[[Any], Any]
    """Message → an array, a text or bytes. It raises a SourceError whose sentence has no subject
    where a message does not fit the stream."""


def list_parts(topic: str, tree: Group, probe: Any) -> list[Part]:  # noqa: ANN401  # a message
    """Return the parts that are listed of a topic: each vector, array, number and text once.

    Messages that consist of numbers of one type only, such as a pose, are one vector. Headers are
    left out.

    Args:
        topic: Its name.
        tree: What its messages consist of.
        probe: Its first message.
    """
    parts = []
    for path in _listed_paths(tree):
        try:
            parts.append(make_part(topic, tree, path, probe))
        except SourceError:  # Empty in the first message, or a list too short.
            continue
        if len(parts) == _MOST_LISTED:
            break
    return parts


def make_part(topic: str, tree: Group, path: Path, probe: Any) -> Part:  # noqa: ANN401  # a message
    """Return the part at a path of a topic's messages.

    Raises:
        SourceError: There is none, or it is neither numbers nor text.
    """
    node = find(tree, path)
    get = getter(path)
    name = f"{topic}:{path_text(path)}" if path else topic
    if isinstance(node, Text):
        return Part(Stream(name, "text"), get)
    if isinstance(node, Number):
        dtype = np.dtype(node.dtype)
        return Part(_numbers(name, node.dtype), lambda message: np.asarray(get(message), dtype))
    if isinstance(node, Group):
        return _vector_part(name, node, path)
    if isinstance(node.item, Number):
        return _array_part(name, node.item.dtype, get, probe)
    raise SourceError(
        f"{name!r} is a list of {_type_name(node.item)}: choose one by its number, such as "
        f"'{name}[0]'."
    )


def path_text(path: Path) -> str:
    """Return a path as it is written: ``points[0].positions``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]


def _array_part(name: str, kind: str, get: Callable[[Any], Any], probe: Any) -> Part:  # noqa: ANN401
    dtype = np.dtype(kind)
    length = len(_array(get(probe), dtype))
    if not length:
        raise SourceError(f"{name!r} is empty in the first message.")

    def take(message: Any) -> NDArray[Any]:  # noqa: ANN401
        values = _array(get(message), dtype)
        if len(values) != length:
            raise SourceError(
                f"has {len(values)} values where the first message has {length}: leave {name!r} out "
                f"of the mapping, or take elements of it, such as '{name}[0]'"
            )
        return values

    return Part(_numbers(name, kind, (length,)), take)


def _vector_part(name: str, node: Group, path: Path) -> Part:
    numbers = numbers_of(node, _is_skipped)
    if not numbers:
        there = ", ".join(node.fields) or "none"
        raise SourceError(
            f"{name!r} does not consist of numbers only: choose a field of it: {there}."
        )
    dtype = np.result_type(*(np.dtype(kind) for _, kind in numbers))
    getters = [getter((*path, *below)) for below, _ in numbers]
    names = tuple(path_text(below) for below, _ in numbers)
    stream = replace(_numbers(name, str(dtype), (len(numbers),)), names=names)
    return Part(stream, lambda message: np.array([get(message) for get in getters], dtype))


def _numbers(name: str, dtype: str, shape: tuple[int, ...] = ()) -> Stream:
    return Stream(name, "numbers", dtype=dtype, shape=shape)


def _array(values: Any, dtype: np.dtype[Any]) -> NDArray[Any]:  # noqa: ANN401
    if isinstance(values, bytes):
        return np.frombuffer(values, dtype)
    return np.asarray(values, dtype)


def _listed_paths(node: Group, path: Path = ()) -> Iterator[Path]:
    counted = {
        name: inner
        for name, inner in node.fields.items()
        if not (isinstance(inner, Group) and _is_skipped(inner))
    }
    numbers = numbers_of(node, _is_skipped)
    if len(counted) > 1 and numbers and len({dtype for _, dtype in numbers}) == 1:
        yield path
        return
    for name, inner in counted.items():
        if isinstance(inner, Group):
            yield from _listed_paths(inner, (*path, name))
        elif not isinstance(inner, Many) or isinstance(inner.item, Number):
            yield (*path, name)


def _is_skipped(group: Group) -> bool:
    return group.type in _NOT_LISTED or _is_time(group)


def _is_time(group: Group) -> bool:
    return group.type.endswith(("/Time", "/Duration")) or set(group.fields) in (
        {"sec", "nsec"}, {"sec", "nanosec"}, {"seconds", "nanos"},
    )  # fmt: skip


def _type_name(node: Node) -> str:
    if isinstance(node, Group):
        return f"messages {node.type}" if node.type else "messages"
    return "texts" if isinstance(node, Text) else "values"


def split_name(name: str, topics: Sequence[str]) -> tuple[str, Path] | None:
    """Return topic and path of a stream's name; None if there is no such topic.

    Raises:
        SourceError: What follows the topic is not a path.
    """
    if name in topics:
        return name, ()
    topic, _, path = name.rpartition(":")
    return (topic, parse_path(path)) if topic in topics else None
