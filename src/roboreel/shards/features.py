"""What a column of a shard store holds: types a user declares, as JSON and as Arrow types."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from roboreel.errors import MetadataError

__all__ = [
    "Array",
    "ClassLabel",
    "Image",
    "Kind",
    "Sequence",
    "Struct",
    "Value",
    "VideoPath",
    "arrow_schema",
    "arrow_type",
    "as_kind",
    "features_from_json",
    "features_of_schema",
    "features_to_json",
    "normalize_features",
]

_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_ARROW_NUMBERS = {str(pa.from_numpy_dtype(np.dtype(name))): name for name in _NUMBERS}
_SCHEMA_KEY = b"roboreel.features"


@dataclass(frozen=True, slots=True)
class Value:
    """One number, text or run of bytes.

    Examples:
        >>> Value("float32")
        Value(dtype='float32')
    """

    dtype: str
    """A NumPy name (``bool``, ``int8`` … ``uint64``, ``float16`` … ``float64``), ``string`` or
    ``bytes``."""

    def __post_init__(self) -> None:
        if self.dtype not in (*_NUMBERS, "string", "bytes"):
            raise ValueError(
                f"Not a type of value: {self.dtype!r}. "
                f"There are {', '.join(_NUMBERS)}, string and bytes."
            )


@dataclass(frozen=True, slots=True)
class ClassLabel:
    """One of a few names, stored as its position among them."""

    names: tuple[str, ...]

    def __init__(self, names: Iterable[str]) -> None:
        object.__setattr__(self, "names", tuple(names))
        if not self.names or len(set(self.names)) != len(self.names):
            raise ValueError(f"A ClassLabel needs names, each once; these are {self.names!r}.")


@dataclass(frozen=True, slots=True)
class Array:
    """Numbers of one shape, the same in every example."""

    shape: tuple[int, ...]
    dtype: str

    def __init__(self, shape: Iterable[int], dtype: str) -> None:
        object.__setattr__(self, "shape", tuple(int(length) for length in shape))
        object.__setattr__(self, "dtype", dtype)
        if not self.shape or min(self.shape) < 1 or math.prod(self.shape) >= 2**31:
            raise ValueError(f"Not the shape of an array: {self.shape}. Lengths are 1 and more.")
        if dtype not in _NUMBERS:
            raise ValueError(f"Not the type of an array: {dtype!r}. Use {', '.join(_NUMBERS)}.")


@dataclass(frozen=True, slots=True)
class Image:
    """A picture, stored encoded: the bytes that were given, or PNG where pixels were given."""


@dataclass(frozen=True, slots=True)
class VideoPath:
    """Where a video lies; the path is stored, the video stays where it is."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Several values of one kind: always ``length`` of them, or, without it, any number."""

    of: Kind
    length: int | None = None

    def __init__(self, of: object, length: int | None = None) -> None:
        object.__setattr__(self, "of", as_kind(of))
        object.__setattr__(self, "length", length)
        if length is not None and not 0 < length < 2**31:
            raise ValueError(f"Not the length of a sequence: {length!r}.")
        if length is not None and not is_number(self.of):
            raise ValueError("Only a sequence of numbers can have a fixed length: leave it out.")


@dataclass(frozen=True, slots=True)
class Struct:
    """Named values that belong together; a plain dict of kinds is turned into this."""

    fields: Mapping[str, Kind] = field(hash=False)


Kind: TypeAlias = Value | ClassLabel | Array | Image | VideoPath | Sequence | Struct


def is_number(kind: Kind) -> bool:
    """Return whether values of a kind are single numbers."""
    return isinstance(kind, Value) and kind.dtype in _NUMBERS


def as_kind(declared: object) -> Kind:
    """Return the kind that a declaration means.

    Examples:
        >>> as_kind("float32"), as_kind(["string"])
        (Value(dtype='float32'), Sequence(of=Value(dtype='string'), length=None))
    """
    if isinstance(declared, (Value, ClassLabel, Array, Image, VideoPath, Sequence, Struct)):
        return declared
    if isinstance(declared, str):
        return Value(declared)
    if isinstance(declared, Mapping):
        return Struct(normalize_features(declared))
    if isinstance(declared, list) and len(declared) == 1:
        return Sequence(declared[0])
    raise ValueError(
        f"Not a feature: {declared!r}. Use Value, ClassLabel, Array, Sequence, Image, VideoPath, "
        "the name of a type, a list of one feature, or a dict of features."
    )


def normalize_features(declared: Mapping[str, object]) -> dict[str, Kind]:
    """Return the kind of every feature by name."""
    if not declared:
        raise ValueError("There are no features: declare at least one.")
    names: Iterable[object] = declared
    for name in names:
        if not isinstance(name, str) or not name:
            raise ValueError(f"Not the name of a feature: {name!r}. Names are text.")
    return {name: as_kind(kind) for name, kind in declared.items()}


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the Arrow type that a kind is stored as; bytes and text always have 64-bit offsets."""
    match kind:
        case Value("string") | VideoPath():
            return pa.large_string()
        case Value("bytes") | Image():
            return pa.large_binary()
        case Value(dtype):
            return pa.from_numpy_dtype(np.dtype(dtype))
        case ClassLabel():
            return pa.int64()
        case Array(shape, dtype):
            return pa.list_(pa.from_numpy_dtype(np.dtype(dtype)), math.prod(shape))
        case Sequence(of, None):
            return pa.large_list(arrow_type(of))
        case Sequence(of, length):
            return pa.list_(arrow_type(of), length)
        case Struct(fields):
            return pa.struct([(name, arrow_type(inner)) for name, inner in fields.items()])


def arrow_schema(features: Mapping[str, Kind]) -> pa.Schema:
    """Return the schema of a shard; it carries the features, so that a shard explains itself."""
    return pa.schema(
        [(name, arrow_type(kind)) for name, kind in features.items()],
        metadata={_SCHEMA_KEY: json.dumps(features_to_json(features))},
    )


def features_of_schema(schema: pa.Schema) -> dict[str, Kind]:
    """Return the features of any table, as far as its schema tells.

    What the schema says of a column counts only while it fits the column: tables are flattened,
    renamed and cast by tools that keep the old description.

    Raises:
        MetadataError: A column has a type that a store cannot serve.
    """
    if len(set(schema.names)) != len(schema.names):
        raise MetadataError(f"Two columns have the same name: {', '.join(schema.names)}.")
    described = _described_features(schema)
    features: dict[str, Kind] = {}
    for column in schema:
        features[column.name] = _kind_of_type(column.type, column.name)
        kind = described.get(column.name)
        if kind is not None and arrow_type(kind) == arrow_type(features[column.name]):
            features[column.name] = kind
    return normalize_features(features)


def _described_features(schema: pa.Schema) -> dict[str, Kind]:
    try:
        return features_from_json(json.loads((schema.metadata or {})[_SCHEMA_KEY]))
    except (KeyError, ValueError):
        return {}


def _kind_of_type(stored: pa.DataType, name: str) -> Kind:
    if isinstance(stored, pa.BaseExtensionType):
        stored = stored.storage_type
    types = pa.types
    if types.is_dictionary(stored):
        return _kind_of_type(stored.value_type, name)
    if types.is_string(stored) or types.is_large_string(stored):
        return Value("string")
    if types.is_binary(stored) or types.is_large_binary(stored):
        return Value("bytes")
    if types.is_struct(stored):
        return Struct({inner.name: _kind_of_type(inner.type, name) for inner in stored})
    if types.is_list(stored) or types.is_large_list(stored) or types.is_fixed_size_list(stored):
        return _kind_of_list(stored, name)
    if str(stored) in _ARROW_NUMBERS:
        return Value(_ARROW_NUMBERS[str(stored)])
    raise MetadataError(f"Column {name!r} has a type that a store cannot serve: {stored}.")


def _kind_of_list(stored: pa.DataType, name: str) -> Kind:
    of = _kind_of_type(stored.value_type, name)
    if not pa.types.is_fixed_size_list(stored):
        return Sequence(of)
    match of:
        case Value(dtype) if dtype in _NUMBERS:
            return Array((stored.list_size,), dtype)
        case Array(shape, dtype):
            return Array((stored.list_size, *shape), dtype)
        case _:
            return Sequence(of)


def features_to_json(features: Mapping[str, Kind]) -> list[Any]:
    """Return features as plain lists and dicts, in their order."""
    return [[name, _kind_to_json(kind)] for name, kind in features.items()]


def features_from_json(plain: object) -> dict[str, Kind]:
    """Return the features that `features_to_json` described.

    Raises:
        MetadataError: Something else was described.
    """
    try:
        return normalize_features({name: _kind_from_json(kind) for name, kind in plain})  # type: ignore[attr-defined]  # checked by doing
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise MetadataError(
            f"Not a description of features: {str(plain)[:200]} ({error})."
        ) from error


def _kind_to_json(kind: Kind) -> dict[str, Any]:
    match kind:
        case Value(dtype):
            return {"kind": "value", "dtype": dtype}
        case ClassLabel(names):
            return {"kind": "class_label", "names": list(names)}
        case Array(shape, dtype):
            return {"kind": "array", "shape": list(shape), "dtype": dtype}
        case Image():
            return {"kind": "image"}
        case VideoPath():
            return {"kind": "video_path"}
        case Sequence(of, length):
            return {"kind": "sequence", "of": _kind_to_json(of), "length": length}
        case Struct(fields):
            return {"kind": "struct", "fields": features_to_json(fields)}


def _kind_from_json(plain: Mapping[str, Any]) -> Kind:
    match plain["kind"]:
        case "value":
            return Value(plain["dtype"])
        case "class_label":
            return ClassLabel(plain["names"])
        case "array":
            return Array(plain["shape"], plain["dtype"])
        case "image":
            return Image()
        case "video_path":
            return VideoPath()
        case "sequence":
            return Sequence(_kind_from_json(plain["of"]), plain["length"])
        case "struct":
            return Struct(features_from_json(plain["fields"]))
        case unknown:
            raise ValueError(f"unknown kind {unknown!r}")
