"""Bytes of a message → its fields, by the encoding of its channel."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from mcap.exceptions import McapError
from mcap.records import Schema
from mcap_protobuf.decoder import DecoderFactory
from rosbags.serde import SerdeError

from roboreel.errors import SourceError
from roboreel.importing.ros.nodes import Group, Many, Number, Text, getter
from roboreel.importing.ros.types import tree_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from roboreel.importing.ros.container import Channel
    from roboreel.importing.ros.nodes import Node
    from roboreel.importing.ros.types import RosTypes

    Decode = Callable[[memoryview], Any]

DECODE_ERRORS = (
    SourceError, ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError,
    OverflowError, RecursionError, struct.error, SerdeError,
)  # fmt: skip
"""What decoders raise of bytes that are not such a message."""
_DEEPEST = 8
"""Levels of messages in messages of JSON and Protobuf that are looked at."""
_STAMPS = (("sec", "nanosec"), ("sec", "nsec"), ("seconds", "nanos"), ("secs", "nsecs"))


@dataclass(frozen=True, slots=True)
class Decoder:
    """How the messages of a channel are understood."""

    decode: Decode
    tree: Group
    stamp: Callable[[memoryview], int] | None
    """Reads when a message came to be, by its own header, in nanoseconds; None if it has none."""


def make_decoder(channel: Channel, types: RosTypes, first: memoryview | None) -> Decoder:
    """Return the decoder of a channel.

    Args:
        channel: The channel.
        types: Types of ROS messages.
        first: Its first message, if there is one: JSON is described by nothing else.

    Raises:
        SourceError: Its messages cannot be decoded. The sentence follows the topic's name.
    """
    match channel.encoding:
        case "cdr" | "ros1":
            return _ros_decoder(channel, types)
        case "json":
            return _generic(
                _decode_json, _json_group(_decode_json(first)) if first else Group("", {})
            )
        case "protobuf":
            return _generic(*_protobuf_decoder(channel))
    raise SourceError(
        f"its messages are encoded as {channel.encoding[:40]!r}: cdr, ros1, json and protobuf are read."
    )


def _ros_decoder(channel: Channel, types: RosTypes) -> Decoder:
    store, name = types.find(channel)
    tree = tree_of(store, name)
    deserialize = store.deserialize_cdr if channel.encoding == "cdr" else store.deserialize_ros1

    def decode(data: memoryview) -> Any:  # noqa: ANN401  # a message of this type
        return deserialize(data, name)

    fast = _fast_stamp(channel.encoding, tree)
    if fast is not None:
        return Decoder(decode, tree, fast)
    return _generic(decode, tree)


def _generic(decode: Decode, tree: Group) -> Decoder:
    path = _stamp_path(tree)
    if path is None:
        return Decoder(decode, tree, None)
    get = getter(path)
    return Decoder(decode, tree, lambda data: message_stamp(get(decode(data))))


def message_stamp(time: Any) -> int:  # noqa: ANN401  # a time of any encoding
    """Return a message's time in nanoseconds."""
    for seconds, nanoseconds in _STAMPS:
        if isinstance(time, dict) and seconds in time and nanoseconds in time:
            return int(time[seconds]) * 10**9 + int(time[nanoseconds])
        if hasattr(time, seconds) and hasattr(time, nanoseconds):
            return int(getattr(time, seconds)) * 10**9 + int(getattr(time, nanoseconds))
    raise ValueError("no time")


def _stamp_path(tree: Group) -> tuple[str, ...] | None:
    """Return where a message says when it came to be."""
    header = tree.fields.get("header")
    if isinstance(header, Group) and _is_time(header.fields.get("stamp")):
        return ("header", "stamp")
    return next(
        (((name,)) for name in ("timestamp", "stamp") if _is_time(tree.fields.get(name))), None
    )


def _is_time(node: Node | None) -> bool:
    return isinstance(node, Group) and any(set(names) <= set(node.fields) for names in _STAMPS)


def _fast_stamp(encoding: str, tree: Group) -> Callable[[memoryview], int] | None:
    """Return a reader for messages that begin with their time, which need not be decoded."""
    path = _stamp_path(tree)
    if path is None or path[0] != next(iter(tree.fields)):
        return None
    header = tree.fields[path[0]]
    first = next(iter(header.fields)) if isinstance(header, Group) else ""
    offset = 4 if encoding == "cdr" or first == "seq" else 0
    if len(path) == 2 and first not in ("seq", "stamp"):
        return None
    little, big = struct.Struct("<iI"), struct.Struct(">iI")

    def stamp(data: memoryview) -> int:
        is_little = encoding == "ros1" or data[1] == 1
        seconds, nanoseconds = (little if is_little else big).unpack_from(data, offset)
        return int(seconds) * 10**9 + int(nanoseconds)

    return stamp


def _decode_json(data: memoryview) -> Any:  # noqa: ANN401  # JSON
    message = json.loads(bytes(data))
    if isinstance(message, dict):
        return message
    raise ValueError("it is not a JSON object")


def _json_group(message: dict[str, Any], depth: int = 0) -> Group:
    fields = {name: _json_node(value, depth) for name, value in message.items()}
    return Group("", {name: node for name, node in fields.items() if node is not None})


def _json_node(value: Any, depth: int) -> Node | None:  # noqa: ANN401  # JSON
    if isinstance(value, bool):
        return Number("bool")
    if isinstance(value, int | float):
        return Number("float64")  # 1 and 1.0 are written alike, so all numbers are of one type.
    if isinstance(value, str):
        return Text()
    if isinstance(value, dict) and depth < _DEEPEST:
        return _json_group(value, depth + 1)
    if isinstance(value, list) and value:
        item = _json_node(value[0], depth + 1)
        return None if item is None else Many(item)
    return None


# Messages of Protobuf, by the descriptors in an MCAP file.

_DTYPES = {
    1: "int32",
    2: "int64",
    3: "uint32",
    4: "uint64",
    5: "float64",
    6: "float32",
    7: "bool",
    8: "int32",  # an enum
}
"""By ``cpp_type``."""
_TEXT, _MESSAGE = 9, 10
_BYTES = 12
"""A ``type``: bytes and texts have the same ``cpp_type``."""


def _protobuf_decoder(channel: Channel) -> tuple[Decode, Group]:
    """Return how the messages of a channel are decoded, and what they consist of.

    Raises:
        SourceError: The channel's definition cannot be understood.
    """
    schema = Schema(1, channel.definition, channel.definition_format, channel.type)
    try:
        decode = DecoderFactory().decoder_for("protobuf", schema)
        if decode is None:
            raise ValueError("no descriptor")
        tree = _protobuf_group(decode(b"").DESCRIPTOR)
    except (McapError, DecodeError, TypeError, ValueError, KeyError, RecursionError) as error:
        raise SourceError(
            f"the definition of its type {channel.type!r} cannot be understood: {error}."
        ) from error

    def read(data: memoryview) -> Any:  # noqa: ANN401  # a message of this type
        try:
            return decode(bytes(data))
        except DecodeError as error:
            raise ValueError(str(error)) from error

    return read, tree


def _protobuf_group(descriptor: Any, depth: int = 0) -> Group:  # noqa: ANN401  # protobuf's own
    nodes = {field.name: _protobuf_node(field, depth) for field in descriptor.fields}
    fields = {name: node for name, node in nodes.items() if node is not None}
    return Group(descriptor.full_name, fields)


def _protobuf_node(field: Any, depth: int) -> Node | None:  # noqa: ANN401  # protobuf's own
    repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
    node: Node
    if field.type == _BYTES:
        return None if repeated else Many(Number("uint8"))
    if field.cpp_type == _MESSAGE:
        if depth >= _DEEPEST or field.message_type.GetOptions().map_entry:
            return None
        node = _protobuf_group(field.message_type, depth + 1)
    else:
        node = Text() if field.cpp_type == _TEXT else Number(_DTYPES[field.cpp_type])
    return Many(node) if repeated else node
