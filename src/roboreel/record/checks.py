"""Checks at the door: a frame fits the dataset, or nothing of it is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FrameError
from roboreel.format.counters import COUNTERS
from roboreel.record.values import check_frame

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from roboreel.schema import Feature

__all__ = ["Door", "given_features"]

_NAMED_BY_RECORDER = (*COUNTERS, "task")


def given_features(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return the features that a caller gives; the others the recorder fills in."""
    return {name: f for name, f in features.items() if name not in COUNTERS}


class Door:
    """Lets in the frames that fit a dataset.

    Args:
        features: All features of the dataset.
        nan_allowed: Features whose values may be NaN or infinite.
    """

    def __init__(self, features: Mapping[str, Feature], nan_allowed: Collection[str] = ()) -> None:
        self._given = given_features(features)
        self._numbers = {n: f for n, f in self._given.items() if f.kind == "number"}
        unknown = [name for name in nan_allowed if name not in self._numbers]
        if unknown:
            raise FrameError(f"NaN is allowed for {unknown[0]!r}, which is no feature of numbers.")
        self._finite = [
            name
            for name, f in self._numbers.items()
            if f.numpy_dtype.kind == "f" and name not in nan_allowed
        ]

    def check(self, frame: Mapping[str, object], task: object) -> dict[str, Any]:
        """Return the values of a frame as they will be stored, except that images are not copied.

        Raises:
            FrameError: A value is missing, not declared, or not what is declared.
        """
        self._check_names(frame)
        if not isinstance(task, str) or not task:
            raise FrameError(f"The task is {task!r}: every frame needs one in words, task='…'.")
        numbers = check_frame(self._numbers, {name: frame[name] for name in self._numbers})
        values: dict[str, Any] = {name: value[0] for name, value in numbers.items()}
        for name in self._finite:
            if not np.isfinite(values[name]).all():
                raise FrameError(
                    f"{name!r} holds NaN or infinity. If that is meant, name it in nan_allowed."
                )
        for name, feature in self._given.items():
            if feature.is_camera:
                values[name] = _image(name, feature, frame[name])
            elif feature.kind == "text":
                values[name] = _text(name, frame[name])
        return values

    def _check_names(self, frame: Mapping[str, object]) -> None:
        filled = [name for name in frame if name in _NAMED_BY_RECORDER]
        if filled:
            advice = "Give it as task='…'" if filled[0] == "task" else "The recorder fills it in"
            raise FrameError(f"{filled[0]!r} is not a value of a frame. {advice}.")
        missing = [name for name in self._given if name not in frame]
        extra = [name for name in frame if name not in self._given]
        if missing or extra:
            parts = [f"{missing} missing"] * bool(missing) + [f"{extra} not declared"] * bool(extra)
            raise FrameError(
                f"Not the declared features: {', '.join(parts)}. Give {list(self._given)}."
            )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise FrameError(f"{name!r} is a {type(value).__name__}: a string is declared.")
    return value


def _image(name: str, feature: Feature, value: object) -> NDArray[Any]:
    image = np.asarray(value)
    height, width, channels = feature.shape
    if feature.depth is not None:
        fits = image.shape in ((height, width), (height, width, 1))
        metric = image.dtype.kind == "f" or image.dtype == np.uint16
        wanted = f"float in metres or uint16 in millimetres, ({height}, {width})"
    else:
        fits = image.shape == (height, width, channels)
        metric = image.dtype == np.uint8
        wanted = f"uint8 ({height}, {width}, {channels})"
    if not fits or not metric:
        hint = ""
        if image.shape == (channels, height, width):
            hint = " Channels come last: move them with np.moveaxis(image, 0, -1)."
        elif metric is False and image.dtype.kind == "f" and fits:
            hint = " Multiply by 255 and round, if its values lie between 0 and 1."
        raise FrameError(f"{name!r} is {image.dtype} {image.shape}: {wanted} is declared.{hint}")
    return image
