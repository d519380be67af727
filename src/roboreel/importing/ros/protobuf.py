"""Messages of Protobuf, by the descriptors in an MCAP file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from mcap.exceptions import McapError
from mcap.records import Schema
from mcap_protobuf.decoder import DecoderFactory

from roboreel.errors import SourceError
from roboreel.importing.ros.nodes import Group, Many, Number, Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from roboreel.importing.ros.container import Channel
    from roboreel.importing.ros.nodes import Node

    Decode = Callable[[memoryview], Any]

_DEEPEST = 8
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


def protobuf_decoder(channel: Channel) -> tuple[Decode, Group]:
    """Return how the messages of a channel are decoded, and what they consist of.

    Raises:
        SourceError: The channel's definition cannot be understood.
    """
    schema = Schema(1, channel.definition, channel.definition_format, channel.type)
    try:
        decode = DecoderFactory().decoder_for("protobuf", schema)
        if decode is None:
            raise ValueError("no descriptor")
        tree = _group(decode(b"").DESCRIPTOR)
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


def _group(descriptor: Any, depth: int = 0) -> Group:  # noqa: ANN401  # protobuf's own
    nodes = {field.name: _node(field, depth) for field in descriptor.fields}
    fields = {name: node for name, node in nodes.items() if node is not None}
    return Group(descriptor.full_name, fields)


def _node(field: Any, depth: int) -> Node | None:  # noqa: ANN401  # protobuf's own
    repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
    node: Node
    if field.type == _BYTES:
        return None if repeated else Many(Number("uint8"))
    if field.cpp_type == _MESSAGE:
        if depth >= _DEEPEST or field.message_type.GetOptions().map_entry:
            return None
        node = _group(field.message_type, depth + 1)
    else:
        node = Text() if field.cpp_type == _TEXT else Number(_DTYPES[field.cpp_type])
    return Many(node) if repeated else node
