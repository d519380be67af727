"""What to read of each sample, as one value."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias, get_args

from roboreel.errors import WindowError
from roboreel.image import Fit, Layout
from roboreel.window import Window

__all__ = ["SampleSpec", "Windows", "check_image_size", "spec_of"]

Windows: TypeAlias = Mapping[str, "Window | Iterable[int]"]
"""Windows by feature; plain integers are offsets in frames."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SampleSpec:
    """What to read of each sample, and the form of its images.

    Args:
        features: Names of the features to read, or one name. None means all of them, and
            ``"task"``. Features that have a window are read in any case.
        windows: Windows by feature; ``range(16)`` is short for ``Window(frames=range(16))``.
        image_size: Height and width to scale images to; None keeps the stored size.
        layout: Order of the axes of images: ``"chw"`` or ``"hwc"``.
        fit: How an image of other proportions fills ``image_size``: ``"stretch"`` changes its
            proportions; ``"pad"`` keeps them, with equal black bars on both sides.

    Raises:
        WindowError: The offsets of a window are not integers, or there are none.
        TypeError: An argument has the wrong type.
        ValueError: The image size is not positive, or the layout or fit is unknown.

    Examples:
        >>> SampleSpec("observation.state", {"action": range(16)}, image_size=(224, 224))
        SampleSpec(features=('observation.state',), windows={'action': Window(frames=range(0, 16))}, image_size=(224, 224), layout='chw')
    """

    features: tuple[str, ...] | None
    windows: Mapping[str, Window]
    """Read-only."""
    image_size: tuple[int, int] | None
    layout: Layout
    fit: Fit

    def __init__(
        self,
        features: Sequence[str] | None = None,
        windows: Windows | None = None,
        image_size: Sequence[int] | None = None,
        layout: Layout = "chw",
        fit: Fit = "stretch",
    ) -> None:
        if layout not in get_args(Layout):
            raise ValueError(f"layout is 'chw' or 'hwc', not {layout!r}.")
        if fit not in get_args(Fit):
            raise ValueError(f"fit is 'stretch' or 'pad', not {fit!r}.")
        put = object.__setattr__
        put(self, "features", None if features is None else _check_names(features))
        put(self, "windows", _NO_WINDOWS if not windows else _check_windows(windows))
        put(self, "image_size", None if image_size is None else check_image_size(image_size))
        put(self, "layout", layout)
        put(self, "fit", fit)

    def __hash__(self) -> int:
        windows = frozenset(self.windows.items())
        return hash((self.features, windows, self.image_size, self.layout, self.fit))

    def __repr__(self) -> str:
        fields = {
            "features": self.features,
            "windows": dict(self.windows) or None,
            "image_size": self.image_size,
            "layout": self.layout,
            "fit": None if self.fit == "stretch" else self.fit,
        }
        given = [f"{name}={value!r}" for name, value in fields.items() if value is not None]
        return f"SampleSpec({', '.join(given)})"

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.features, dict(self.windows), self.image_size, self.layout, self.fit)
        return SampleSpec, parts


def spec_of(
    features: Sequence[str] | SampleSpec | None = None,
    windows: Windows | SampleSpec | None = None,
    image_size: Sequence[int] | None = None,
    layout: Layout | None = None,
) -> SampleSpec:
    """Return the spec that a caller gave, either whole or in parts.

    Raises:
        TypeError: A whole spec and parts of one were given.
    """
    others: tuple[object, ...]
    if isinstance(features, SampleSpec):
        spec, others = features, (windows, image_size, layout)
    elif isinstance(windows, SampleSpec):
        spec, others = windows, (features, image_size, layout)
    elif layout is None:
        return SampleSpec(features, windows, image_size)
    else:
        return SampleSpec(features, windows, image_size, layout)
    if any(other is not None for other in others):
        raise TypeError(
            "A SampleSpec was given together with features, windows, image_size or layout. Put "
            "them into the spec: dataclasses.replace(spec, image_size=(224, 224))."
        )
    return spec


_NO_WINDOWS: Mapping[str, Window] = MappingProxyType({})


def _check_names(features: Sequence[str]) -> tuple[str, ...]:
    if isinstance(features, str):
        return (features,)
    try:
        names = tuple(features)
    except TypeError:
        raise TypeError(
            f"features is {features!r}: give names, such as ['action', 'task']."
        ) from None
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"features holds {name!r}: features have names, such as 'action'.")
    return names


def _check_windows(windows: Windows) -> Mapping[str, Window]:
    if type(windows) is not dict and not isinstance(windows, Mapping):
        raise TypeError(
            f"windows is {windows!r}: give windows by feature, such as {{'action': range(16)}}."
        )
    return MappingProxyType(
        {
            name: window if type(window) is Window else _as_window(name, window)
            for name, window in windows.items()
        }
    )


def _as_window(name: str, window: Window | Iterable[int]) -> Window:
    if isinstance(window, Window):
        return window
    try:
        return Window(frames=window)
    except WindowError as error:
        raise WindowError(f"The window of {name!r}: {error}") from None


def check_image_size(size: Sequence[int], name: str = "image_size") -> tuple[int, int]:
    """Return a height and a width in pixels, as a caller gave them.

    Raises:
        TypeError: They are not two whole numbers.
        ValueError: One is less than 1.
    """
    try:
        height, width = map(operator.index, size)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} is {size!r}: give height and width in pixels, such as (224, 224)."
        ) from None
    if height < 1 or width < 1:
        raise ValueError(f"{name} is {size!r}: height and width are 1 or more.")
    return height, width
