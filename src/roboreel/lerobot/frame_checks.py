"""What LeRobot refuses in a frame, in the words that its users look for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from roboreel.schema import Feature

__all__ = ["check_frame"]


def check_frame(features: Mapping[str, Feature], frame: Mapping[str, Any], task: object) -> None:
    """Raise if LeRobot would refuse a frame.

    The recorder checks it too, and takes more: numbers for shape ``(1,)``, and lists.

    Args:
        features: The features that a caller gives.
        frame: Their values, without tensors.
        task: What the robot is doing, in words.

    Raises:
        FrameError: The task or a feature is missing, one is not declared, or a value has another
            type, dtype or shape than is declared.
    """
    if not isinstance(task, str):
        raise FrameError(
            "Feature mismatch in `frame` dictionary:\nMissing features: {'task'}\n"
            "Give it as frame['task'], or beside the frame as task='…'."
        )
    missing = [name for name in features if name not in frame]
    extra = [name for name in frame if name not in features]
    if missing or extra:
        raise FrameError(
            "Feature mismatch in `frame` dictionary:\n"
            + (f"Missing features: {{{str(missing)[1:-1]}}}\n" if missing else "")
            + (f"Extra features: {{{str(extra)[1:-1]}}}\n" if extra else "")
            + f"The features are {', '.join(features)}."
        )
    for name, feature in features.items():
        if feature.is_camera:
            _check_image(name, feature, frame[name])
        elif feature.kind == "number":
            _check_numbers(name, feature, frame[name])


def _check_numbers(name: str, feature: Feature, value: object) -> None:
    if not isinstance(value, np.ndarray):
        raise FrameError(
            f"The feature {name!r} is not a 'np.ndarray'. Expected type is {feature.dtype!r}, but "
            f"type '{type(value)}' provided instead.\nGive an array of shape {feature.shape}."
        )
    if value.dtype != feature.numpy_dtype:
        raise FrameError(
            f"The feature {name!r} of dtype '{value.dtype}' is not of the expected dtype "
            f"{feature.dtype!r}.\nConvert it with astype."
        )
    if value.shape != feature.shape:
        raise FrameError(
            f"The feature {name!r} of shape '{value.shape}' does not have the expected shape "
            f"'{feature.shape}'.\nReshape it, or declare its shape when the dataset is created."
        )


def _check_image(name: str, feature: Feature, value: ArrayLike) -> None:
    height, width, channels = feature.shape
    shape = np.shape(value)
    last, first = (height, width, channels), (channels, height, width)
    flat = (height, width) if feature.depth is not None else last
    if shape not in (last, first, flat):
        raise FrameError(
            f"The feature {name!r} of shape '{shape}' does not have the expected shape '{first}' "
            f"or '{last}'.\nResize the image, or declare its shape when the dataset is created."
        )
