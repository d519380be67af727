"""The features of a shard store: types to declare, and their JSON and Arrow forms."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from roboreel.errors import MetadataError

__all__ = [
    "Array",
    "ClassLabel",
    "FeatureType",
    "Image",
    "Sequence",
    "Struct",
    "Value",
    "VideoPath",
    "arrow_schema",
    "arrow_type",
    "as_feature",
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
    """A number, text or bytes.

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
                f"Not the dtype of a value: {self.dtype!r}. "
                f"Use {', '.join(_NUMBERS)}, string or bytes."
            )


@dataclass(frozen=True, slots=True)
class ClassLabel:
    """One of several names, stored as its position among them."""

    names: tuple[str, ...]

    def __init__(self, names: Iterable[str]) -> None:
        object.__setattr__(self, "names", tuple(names))
        if not self.names or len(set(self.names)) != len(self.names):
            raise ValueError(f"A ClassLabel needs distinct names, not {self.names!r}.")


@dataclass(frozen=True, slots=True)
class Array:
    """An array with the same shape in every example."""

    shape: tuple[int, ...]
    dtype: str

    def __init__(self, shape: Iterable[int], dtype: str) -> None:
        object.__setattr__(self, "shape", tuple(int(length) for length in shape))
        object.__setattr__(self, "dtype", dtype)
        if not self.shape or min(self.shape) < 1 or math.prod(self.shape) >= 2**31:
            raise ValueError(
                f"Not the shape of an array: {self.shape}. Every length must be at least 1."
            )
        if dtype not in _NUMBERS:
            raise ValueError(f"Not the dtype of an array: {dtype!r}. Use {', '.join(_NUMBERS)}.")


@dataclass(frozen=True, slots=True)
class Image:
    """An image, stored encoded: bytes as they were given, pixels as PNG."""


@dataclass(frozen=True, slots=True)
class VideoPath:
    """The path of a video; the video itself is not stored."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of values of one type, of any length or of a fixed one."""

    of: FeatureType
    length: int | None = None

    def __init__(self, of: object, length: int | None = None) -> None:
        object.__setattr__(self, "of", as_feature(of))
        object.__setattr__(self, "length", length)
        if length is not None and not 0 < length < 2**31:
            raise ValueError(f"Not the length of a sequence: {length!r}. It must be at least 1.")
        if length is not None and not is_number(self.of):
            raise ValueError(
                "Only a sequence of numbers can have a fixed length. Leave the length out."
            )


@dataclass(frozen=True, slots=True)
class Struct:
    """Named values; a dict of features becomes this."""

    fields: Mapping[str, FeatureType] = field(hash=False)

    def __init__(self, fields: Mapping[str, object]) -> None:
        object.__setattr__(self, "fields", normalize_features(fields))


_PLAIN_NAMES: dict[type, str] = {
    Value: "value",
    ClassLabel: "class_label",
    Array: "array",
    Image: "image",
    VideoPath: "video_path",
}
_PLAIN_TYPES: dict[str, Callable[..., FeatureType]] = {
    name: plain for plain, name in _PLAIN_NAMES.items()
}

FeatureType: TypeAlias = Value | ClassLabel | Array | Image | VideoPath | Sequence | Struct


def is_number(feature: FeatureType) -> bool:
    """Return whether each value is a single number."""
    return isinstance(feature, Value) and feature.dtype in _NUMBERS


def as_feature(declared: object) -> FeatureType:
    """Return a declaration as a feature.

    Examples:
        >>> as_feature("float32"), as_feature(["string"])
        (Value(dtype='float32'), Sequence(of=Value(dtype='string'), length=None))
    """
    if isinstance(declared, (Value, ClassLabel, Array, Image, VideoPath, Sequence, Struct)):
        return declared
    if isinstance(declared, str):
        return Value(declared)
    if isinstance(declared, Mapping):
        return Struct(declared)
    if isinstance(declared, list) and len(declared) == 1:
        return Sequence(declared[0])
    raise ValueError(
        f"Not a feature: {declared!r}. Use Value, ClassLabel, Array, Sequence, Image, VideoPath, "
        "a dtype name, a list of one feature, or a dict of features."
    )


def normalize_features(declared: Mapping[str, object]) -> dict[str, FeatureType]:
    """Return declarations as features, by name."""
    if not declared:
        raise ValueError("There are no features: declare at least one.")
    names: Iterable[object] = declared
    for name in names:
        if not isinstance(name, str) or not name:
            raise ValueError(f"Not the name of a feature: {name!r}. A name is text, and not empty.")
    return {name: as_feature(feature) for name, feature in declared.items()}


def arrow_type(feature: FeatureType) -> pa.DataType:
    """Return the Arrow type of a feature; bytes, text and lists have 64-bit offsets."""
    match feature:
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


def arrow_schema(features: Mapping[str, FeatureType]) -> pa.Schema:
    """Return the schema of a shard; its metadata describes the features."""
    return pa.schema(
        [(name, arrow_type(feature)) for name, feature in features.items()],
        metadata={_SCHEMA_KEY: json.dumps(features_to_json(features))},
    )


def features_of_schema(schema: pa.Schema) -> dict[str, FeatureType]:
    """Return the features of any table, as far as its schema describes them.

    Metadata is used only where it fits the column: other tools flatten, rename and cast tables
    but keep the old metadata.

    Raises:
        MetadataError: Two columns have the same name, a type is not supported, or there are no
            columns.
    """
    if not schema.names:
        raise MetadataError("The table has no columns.")
    if len(set(schema.names)) != len(schema.names):
        raise MetadataError(f"Two columns have the same name: {', '.join(schema.names)}.")
    described = _described_features(schema)
    features: dict[str, FeatureType] = {}
    for column in schema:
        features[column.name] = _feature_of_type(column.type, column.name)
        feature = described.get(column.name)
        if feature is not None and arrow_type(feature) == arrow_type(features[column.name]):
            features[column.name] = feature
    return normalize_features(features)


def _described_features(schema: pa.Schema) -> dict[str, FeatureType]:
    try:
        return features_from_json(json.loads((schema.metadata or {})[_SCHEMA_KEY]))
    except (KeyError, ValueError):
        return {}


def _feature_of_type(stored: pa.DataType, name: str) -> FeatureType:
    if isinstance(stored, pa.BaseExtensionType):
        stored = stored.storage_type
    types = pa.types
    if types.is_dictionary(stored):
        return _feature_of_type(stored.value_type, name)
    if types.is_string(stored) or types.is_large_string(stored):
        return Value("string")
    if types.is_binary(stored) or types.is_large_binary(stored):
        return Value("bytes")
    if types.is_struct(stored) and stored.num_fields:
        return Struct({inner.name: _feature_of_type(inner.type, name) for inner in stored})
    if types.is_list(stored) or types.is_large_list(stored) or types.is_fixed_size_list(stored):
        return _feature_of_list(stored, name)
    if str(stored) in _ARROW_NUMBERS:
        return Value(_ARROW_NUMBERS[str(stored)])
    raise MetadataError(f"Column {name!r} has a type that is not supported: {stored}.")


def _feature_of_list(stored: pa.DataType, name: str) -> FeatureType:
    of = _feature_of_type(stored.value_type, name)
    if not pa.types.is_fixed_size_list(stored):
        return Sequence(of)
    match of:
        case Value(dtype) if dtype in _NUMBERS:
            return Array((stored.list_size,), dtype)
        case Array(shape, dtype):
            return Array((stored.list_size, *shape), dtype)
        case _:
            return Sequence(of)


def features_to_json(features: Mapping[str, FeatureType]) -> list[Any]:
    """Return features as plain values, in their order."""
    return [[name, _feature_to_json(feature)] for name, feature in features.items()]


def features_from_json(plain: object) -> dict[str, FeatureType]:
    """Return the features that `features_to_json` described.

    Raises:
        MetadataError: This is not a description of features.
    """
    try:
        return normalize_features({name: _feature_from_json(feature) for name, feature in plain})  # type: ignore[attr-defined]  # checked by doing
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise MetadataError(
            f"Not a description of features: {str(plain)[:200]} ({error})."
        ) from error


def _feature_to_json(feature: FeatureType) -> dict[str, Any]:
    match feature:
        case Sequence(of, length):
            return {"kind": "sequence", "of": _feature_to_json(of), "length": length}
        case Struct(fields):
            return {"kind": "struct", "fields": features_to_json(fields)}
        case _:
            return {"kind": _PLAIN_NAMES[type(feature)]} | asdict(feature)


def _feature_from_json(plain: Mapping[str, Any]) -> FeatureType:
    arguments = dict(plain)
    match arguments.pop("kind"):
        case "sequence":
            return Sequence(_feature_from_json(plain["of"]), plain["length"])
        case "struct":
            return Struct(features_from_json(plain["fields"]))
        case kind:
            return _PLAIN_TYPES[kind](**arguments)
