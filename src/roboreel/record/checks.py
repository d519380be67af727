"""Checks at the door: a frame fits the dataset, or nothing of it is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FrameError
from roboreel.format.counters import COUNTERS
from roboreel.record.encoded import EncodedImage, EncodedPacket, check_encoded
from roboreel.record.values import channels_hint, check_names, check_value
from roboreel.text import is_writable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from roboreel.schema import Feature

    Stored = NDArray[Any] | str | EncodedImage | EncodedPacket


def given_features(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return the features that a caller gives; the recorder fills in the others."""
    return {name: f for name, f in features.items() if name not in COUNTERS}


class Door:
    """Lets in the frames that fit a dataset.

    Args:
        features: All features of the dataset.
        nan_allowed: Features whose values may be NaN or infinite.

    Raises:
        FrameError: ``nan_allowed`` names something that is not a feature of numbers.
    """

    def __init__(self, features: Mapping[str, Feature], nan_allowed: Collection[str] = ()) -> None:
        self._given = given_features(features)
        numbers = {name: f for name, f in self._given.items() if f.kind == "number"}
        unknown = [name for name in nan_allowed if name not in numbers]
        if unknown:
            raise FrameError(
                f"nan_allowed has {unknown[0]!r}, which is not a feature of numbers: those are "
                f"{list(numbers)}."
            )
        self._finite = {
            name
            for name, f in numbers.items()
            if f.numpy_dtype.kind == "f" and name not in nan_allowed
        }

    def check(self, frame: Mapping[str, object], task: object) -> dict[str, Any]:
        """Return the values of a frame as they will be stored; images are not copied.

        Raises:
            FrameError: A value is missing, not declared, or not what is declared.
        """
        _check_free_names(frame)
        check_names(self._given, frame)
        if not isinstance(task, str) or not task:
            raise FrameError(f"The task is {task!r}: every frame needs one in words, task='…'.")
        if not is_writable(task):
            raise FrameError(f"The task is {task!r}, which holds half of a character.")
        return {name: self._value(name, f, frame[name]) for name, f in self._given.items()}

    def _value(self, name: str, feature: Feature, value: object) -> Stored:
        if feature.is_camera and isinstance(value, EncodedImage | EncodedPacket):
            check_encoded(name, feature, value)
            return value
        if feature.is_camera:
            return _image(name, feature, value)
        if feature.kind == "text":
            return _text(name, value)
        array = check_value(name, feature, value)
        if name in self._finite and not np.isfinite(array).all():
            raise FrameError(
                f"{name!r} holds NaN or infinity. If that is intended, name it in nan_allowed."
            )
        return array


def _check_free_names(frame: Mapping[str, object]) -> None:
    for name in frame:
        if name == "task":
            raise FrameError("'task' is not a value of a frame. Give it as task='…'.")
        if name in COUNTERS:
            raise FrameError(f"{name!r} is not a value of a frame. The recorder fills it in.")


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise FrameError(f"{name!r} has type {type(value).__name__}: a string is declared.")
    return value


def _image(name: str, feature: Feature, value: object) -> NDArray[Any]:
    image = np.asarray(value)
    height, width, channels = feature.shape
    if feature.depth is not None:
        fits = image.shape in ((height, width), (height, width, 1))
        typed = image.dtype.kind == "f" or image.dtype == np.uint16
        wanted = f"float in metres or uint16 in millimetres, ({height}, {width})"
    else:
        fits = image.shape == (height, width, channels)
        typed = image.dtype == np.uint8
        wanted = f"uint8 ({height}, {width}, {channels})"
    if fits and typed:
        return image
    hint = channels_hint(feature, image.shape)
    if fits and image.dtype.kind == "f":
        hint = " Multiply by 255 and round, if its values lie between 0 and 1."
    raise FrameError(f"{name!r} is {image.dtype} {image.shape}: {wanted} is declared.{hint}")
