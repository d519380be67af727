"""A feature: a named value that every frame has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from roboreel.errors import FeatureError
from roboreel.numbers import one_number

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["number", "text", "image", "video", "language"]
"""What the value of a feature is."""

_KINDS: dict[str, Kind] = {
    "image": "image",
    "video": "video",
    "string": "text",
    "language": "language",
}


@dataclass(frozen=True, slots=True)
class Depth:
    """How the stored values of a depth camera become metres.

    The 12-bit codes of a video stand for distances between ``min_m`` and ``max_m``, spaced evenly
    in ``ln(distance + shift)`` if ``log`` is true, and evenly in distance otherwise.

    Raises:
        FeatureError: The range is empty or not finite, has no logarithm, or the unit is unknown.
    """

    min_m: float = 0.01
    max_m: float = 10.0
    shift: float = 3.5
    log: bool = True
    unit: str = "m"
    """Unit of depth that is stored as images rather than as video: ``"m"`` or ``"mm"``."""

    def __post_init__(self) -> None:
        for name in ("min_m", "max_m", "shift"):
            object.__setattr__(self, name, _check_finite(name, getattr(self, name)))
        if not self.min_m < self.max_m:
            raise FeatureError(
                f"Depth from {self.min_m:g} m to {self.max_m:g} m is an empty range: max_m must "
                "exceed min_m."
            )
        if self.log and self.min_m + self.shift <= 0:
            raise FeatureError(
                f"min_m + shift is {self.min_m + self.shift:g}, which has no logarithm: give a "
                "larger shift, or log=False."
            )
        if self.unit not in ("m", "mm"):
            raise FeatureError(f"The unit of depth is 'm' or 'mm', not {self.unit!r}.")


@dataclass(frozen=True, slots=True)
class Feature:
    """A named value that every frame has.

    Raises:
        FeatureError: The dtype is unknown, or the shape is not one.

    Examples:
        >>> Feature("float32", (2,), names=("shoulder", "elbow")).kind
        'number'
        >>> Feature("video", (240, 320, 3)).is_camera
        True
    """

    dtype: str
    """A NumPy name (``float32``, ``int64``, ``bool``, …), or ``string``, ``language``, ``image``,
    ``video``."""
    shape: tuple[int, ...]
    """Shape of one value; ``(1,)`` is a scalar. Cameras: ``(height, width, channels)``."""
    names: tuple[str, ...] | None = None
    """Names of the elements: joints, axes."""
    depth: Depth | None = None
    """Set for depth cameras."""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further keys of the metadata, kept as they were found."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _check_dtype(self.dtype))
        object.__setattr__(self, "shape", _check_shape(self.shape))
        if self.is_camera and len(self.shape) != 3:
            raise FeatureError(
                f"A camera has the shape (height, width, channels), not {self.shape}."
            )
        if self.names is not None:
            object.__setattr__(self, "names", _check_names(self.names))
        if self.depth is not None and not isinstance(self.depth, Depth):
            raise FeatureError(f"depth is {self.depth!r}: give Depth(min_m=…, max_m=…).")

    @property
    def kind(self) -> Kind:
        """What a value is: numbers, text, language, or an image."""
        return _KINDS.get(self.dtype, "number")

    @property
    def is_text(self) -> bool:
        """Whether the values are text, plain or with roles."""
        return self.kind in ("text", "language")

    @property
    def is_camera(self) -> bool:
        """Whether the values are images, stored as pictures or as video."""
        return self.dtype in ("image", "video")

    @property
    def is_video(self) -> bool:
        """Whether the values are images in video files."""
        return self.dtype == "video"

    @property
    def has_alpha(self) -> bool:
        """Whether the values are pictures with an alpha channel; video has none."""
        return self.dtype == "image" and self.shape[2] == 4

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements; ``object`` for text, ``uint8`` for cameras."""
        if self.is_camera:
            return np.dtype(np.uint8)
        return np.dtype(self.dtype if self.kind == "number" else object)

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of one value as it is read: a feature of shape ``(1,)`` is a scalar."""
        return () if self.shape == (1,) or self.is_text else self.shape


def _check_dtype(dtype: object) -> str:
    if isinstance(dtype, str) and dtype in _KINDS:
        return dtype
    try:
        known = None if dtype is None else np.dtype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError):  # NumPy parses "3f4, i8" as Python.
        known = None
    if known is None or known.kind not in "biufc":
        raise FeatureError(
            f"No dtype {dtype!r}: give the name of a NumPy dtype such as 'float32', or one of "
            f"{', '.join(map(repr, _KINDS))}."
        )
    return str(known.name)


def _check_shape(shape: object) -> tuple[int, ...]:
    try:
        sizes = tuple(one_number(size, "size") for size in shape)  # type: ignore[attr-defined]
    except TypeError:
        raise FeatureError(f"shape is {shape!r}: give sizes, such as (2,).") from None
    if any(size < 0 for size in sizes):
        raise FeatureError(f"shape is {shape!r}: sizes are 0 or more.")
    return sizes or (1,)


def _check_names(names: object) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    try:
        return tuple(map(str, names))  # type: ignore[call-overload]  # that is the question
    except TypeError:
        raise FeatureError(f"names is {names!r}: give one for each element.") from None


def _check_finite(name: str, number: object) -> float:
    if isinstance(number, int | float | np.number) and math.isfinite(number):
        return float(number)
    raise FeatureError(f"{name} is {number!r}: give a finite number of metres.")
