"""Types of ROS messages, from the definitions in a file or from a distribution of ROS."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rosbags.interfaces import Nodetype
from rosbags.typesys import (
    Stores,
    TypesysError,
    get_types_from_idl,
    get_types_from_msg,
    get_typestore,
)

from roboreel.errors import SourceError
from roboreel.importing.ros.nodes import Group, Many, Number, Text

if TYPE_CHECKING:
    from roboreel.importing.ros.container import Channel
    from roboreel.importing.ros.nodes import Node

DISTROS = tuple(
    store.name.removeprefix("ROS2_").lower() for store in Stores if store.name.startswith("ROS2_")
)
"""Distributions of ROS 2 whose standard types are known, oldest first."""
_WITHOUT_DEFINITIONS = ("dashing", "eloquent", "foxy", "galactic", "humble")
"""Those whose bags do not define their types."""
_DTYPES = {"byte": "int8", "char": "uint8", "octet": "uint8"}
_MOST_DEFINITION_BYTES = 1024**2
_MOST_REPEATS = 4096
"""Elements of an array of fixed length of texts or messages: each becomes a line of code."""
_MOST_ELEMENTS = 2**24
_IDL_SEPARATOR = "=" * 80 + "\n"
_PARSE_ERRORS = (
    TypesysError, KeyError, ValueError, AssertionError, IndexError, AttributeError, TypeError,
    RecursionError, SyntaxError,
)  # fmt: skip


class RosTypes:
    """The types of a file's messages.

    Args:
        distro: The distribution that recorded the file, for types that it does not define.

    Raises:
        SourceError: The distribution is not known.
    """

    def __init__(self, distro: str | None = None) -> None:
        if distro is not None and distro not in DISTROS:
            raise SourceError(
                f"There is no distribution {distro!r}: give one of {', '.join(DISTROS)}."
            )
        self._distro = distro

    def find(self, channel: Channel) -> tuple[Any, str]:
        """Return a store that has a channel's type, and the type's name there.

        Raises:
            SourceError: The type is not defined, or its definition cannot be understood.
        """
        name = _normal_name(channel.type)
        if not channel.definition and channel.encoding == "ros1":
            raise SourceError(f"its type {channel.type!r} is not defined in the file.")
        if not channel.definition:
            return self._standard(name), name
        try:
            return _defined(name, channel.definition_format, channel.definition), name
        except _PARSE_ERRORS as error:
            raise SourceError(
                f"the definition of its type {channel.type!r} cannot be understood: "
                f"{_short(error)}."
            ) from error

    def _standard(self, name: str) -> Any:  # noqa: ANN401
        if self._distro is not None:
            store = get_typestore(Stores[f"ROS2_{self._distro.upper()}"])
            if name not in store.fielddefs:
                raise SourceError(_undefined(name, f" and is not a type of ROS 2 {self._distro}"))
            return store
        stores = [get_typestore(Stores[f"ROS2_{old.upper()}"]) for old in _WITHOUT_DEFINITIONS]
        having = [store for store in stores if name in store.fielddefs]
        if not having:
            raise SourceError(_undefined(name, " and is not a standard type"))
        if any(store.fielddefs[name][1] != having[0].fielddefs[name][1] for store in having):
            raise SourceError(
                f"its type {name!r} is not defined in the file, and differs between distributions "
                f"of ROS 2. Say which one recorded it: --distro {'|'.join(_WITHOUT_DEFINITIONS)}."
            )
        return having[-1]


def tree_of(store: Any, name: str) -> Group:  # noqa: ANN401
    """Return what a message of a type consists of."""
    fields = store.get_msgdef(name).fields
    return Group(name, {field: _node(store, described) for field, described in fields})


def _node(store: Any, described: Any) -> Node:  # noqa: ANN401
    kind, inner = described
    if kind == Nodetype.BASE:
        return Text() if inner[0] == "string" else Number(_DTYPES.get(inner[0], inner[0]))
    if kind == Nodetype.NAME:
        return tree_of(store, inner)
    return Many(_node(store, inner[0]))


@lru_cache(
    maxsize=256
)  # Making one takes some milliseconds, and files of a lab have the same types.
def _defined(name: str, form: str, definition: bytes) -> Any:  # noqa: ANN401
    """Return a store with a type and the types inside it."""
    types = _parse(name, form, definition)
    _check_types(types, name)
    store = get_typestore(Stores.EMPTY)
    store.register(types)
    store.get_msgdef(name)
    return store


def _parse(name: str, form: str, definition: bytes) -> dict[str, Any]:
    if len(definition) > _MOST_DEFINITION_BYTES:
        raise ValueError(f"it has {len(definition):,} bytes")
    text = definition.decode()
    if form in ("ros1msg", "ros2msg"):
        return dict(get_types_from_msg(text, name))
    if form not in ("ros2idl", "omgidl"):
        raise ValueError(f"it is written as {form[:40]!r}")
    if not text.startswith(_IDL_SEPARATOR + "IDL: "):
        return dict(get_types_from_idl(text))
    types: dict[str, Any] = {}
    for part in text.split(_IDL_SEPARATOR)[1:]:
        types.update(get_types_from_idl(part.partition("\n")[2]))
    return types


def _check_types(types: dict[str, Any], name: str) -> None:
    """Raise ValueError if types are larger than types are, or contain themselves."""
    if name not in types:
        raise ValueError("it defines other types")
    counted: dict[str, int] = {}

    def elements(of: str, above: tuple[str, ...]) -> int:
        if of in above or len(above) > 32:
            raise ValueError(f"{of!r} contains itself")
        if of not in counted:
            fields = types[of][1] if of in types else []
            counted[of] = sum(size(described, (*above, of)) for _, described in fields)
        return counted[of]

    def size(described: Any, above: tuple[str, ...]) -> int:  # noqa: ANN401
        (kind, inner), count, most = described, 1, _MOST_ELEMENTS
        if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE):
            is_fixed = kind == Nodetype.ARRAY
            (kind, inner), count = inner[0], inner[1] if is_fixed else 1
            most = _MOST_REPEATS if kind == Nodetype.NAME or inner[0] == "string" else most
        if count > most:
            raise ValueError(f"an array has {count:,} elements")
        return int(count) * max(1, elements(inner, above) if kind == Nodetype.NAME else 1)

    if elements(name, ()) > _MOST_ELEMENTS:
        raise ValueError("a message would have too many elements")


def _normal_name(name: str) -> str:
    """Return a type's name with ``/msg/`` in it, as ROS 2 writes it."""
    package, _, rest = name.partition("/")
    if rest and "/" not in rest:
        return f"{package}/msg/{rest}"
    return name


def _undefined(name: str, why: str) -> str:
    return (
        f"its type {name!r} is not defined in the file{why}. Record it as MCAP, or with ROS 2 Iron "
        "or later, which store the definitions; `ros2 bag convert` does it where the type is installed."
    )


def _short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:120] if lines else type(error).__name__
