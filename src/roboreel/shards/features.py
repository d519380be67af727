"""The features of a shard store: types to declare, and their JSON form."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from roboreel.errors import MetadataError

_UNITS = ("s", "ms", "us", "ns")
NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
TIMES = tuple(f"{kind}[{unit}]" for kind in ("datetime64", "timedelta64") for unit in _UNITS)


@dataclass(frozen=True, slots=True)
class Value:
    """A number, text or bytes.

    Examples:
        >>> Value("float32")
        Value(dtype='float32')
    """

    dtype: str
    """A NumPy name (``bool``, ``int8`` … ``uint64``, ``float16`` … ``float64``, ``datetime64[us]``,
    ``timedelta64[ns]``, …), ``string`` or ``bytes``."""

    def __post_init__(self) -> None:
        if self.dtype not in (*NUMBERS, *TIMES, "string", "bytes"):
            raise ValueError(
                f"Not the dtype of a value: {self.dtype!r}. "
                f"Use {', '.join((*NUMBERS, *TIMES))}, string or bytes."
            )


@dataclass(frozen=True, slots=True)
class ClassLabel:
    """One of several names, stored as its position among them.

    Examples:
        >>> label = ClassLabel(["cat", "dog"])
        >>> label.num_classes, label.str2int("dog"), label.int2str([0, 1])
        (2, 1, ['cat', 'dog'])
    """

    names: tuple[str, ...]

    def __init__(
        self, names: Iterable[str] | None = None, *, num_classes: int | None = None
    ) -> None:
        """Take the names, or how many classes there are: these are called ``"0"``, ``"1"``, …."""
        if (names is None) == (num_classes is None):
            raise ValueError("A ClassLabel needs its names, or num_classes.")
        given = map(str, range(num_classes or 0)) if names is None else names
        object.__setattr__(self, "names", tuple(given))
        if not self.names or len(set(self.names)) != len(self.names):
            raise ValueError(f"A ClassLabel needs distinct names, not {self.names!r}.")

    @property
    def num_classes(self) -> int:
        """How many names there are."""
        return len(self.names)

    def str2int(self, names: str | Iterable[str]) -> Any:  # noqa: ANN401  # a number, or a list
        """Return the number of a name, or a list of numbers for several names.

        Raises:
            ValueError: A name is not one of the labels.
        """
        if not isinstance(names, str):
            return [self.str2int(name) for name in names]
        if names not in self.names:
            raise ValueError(f"{names!r} is not one of the labels {', '.join(self.names)}.")
        return self.names.index(names)

    def int2str(self, numbers: SupportsIndex | Iterable[SupportsIndex]) -> Any:  # noqa: ANN401  # text, or a list
        """Return the name of a number, or a list of names for several numbers.

        Raises:
            ValueError: There is no label of this number.
        """
        if isinstance(numbers, Iterable) and np.ndim(numbers) > 0:  # type: ignore[arg-type]  # that is the question
            return [self.int2str(number) for number in numbers]
        number = operator.index(numbers)  # type: ignore[arg-type]  # not a list
        if not 0 <= number < len(self.names):
            raise ValueError(
                f"Label {number} does not exist: there are {len(self.names)}, "
                f"0 to {len(self.names) - 1}."
            )
        return self.names[number]


@dataclass(frozen=True, slots=True)
class Array:
    """An array with the same shape in every example."""

    shape: tuple[int, ...]
    dtype: str

    def __init__(self, shape: Iterable[int], dtype: str) -> None:
        try:
            lengths = tuple(operator.index(length) for length in shape)
        except TypeError as error:
            raise TypeError(
                f"Not the shape of an array: {shape!r}. It comes first: Array((2,), 'float32')."
            ) from error
        object.__setattr__(self, "shape", lengths)
        object.__setattr__(self, "dtype", dtype)
        if not self.shape or min(self.shape) < 1 or math.prod(self.shape) >= 2**31:
            raise ValueError(
                f"Not the shape of an array: {self.shape}. Every length must be at least 1."
            )
        if dtype not in NUMBERS:
            raise ValueError(f"Not the dtype of an array: {dtype!r}. Use {', '.join(NUMBERS)}.")


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
    """Return whether each value is a single number or time."""
    return isinstance(feature, Value) and feature.dtype not in ("string", "bytes")


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
        if not isinstance(name, str) or not name or not _is_unicode(name):
            raise ValueError(f"Not the name of a feature: {name!r}. A name is text, and not empty.")
    return {name: as_feature(feature) for name, feature in declared.items()}


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


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
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
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
