"""Values between two frames. Arithmetic only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import WindowError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.schema import Feature

_ROTATIONS = re.compile(
    r"(?<![a-z])(roll|pitch|yaw|rpy|heading|azimuth|bearing|eulers?|angles?|theta|phi|psi|quats?"
    r"|quaternions?|orientations?|rot|rotations?|rotvec|axisangle|q[wxyz]|r[xyz])(?![a-z])"
)
_NEW_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def check_linear(name: str, feature: Feature) -> None:
    """Raise WindowError if there are no values between two values of a feature."""
    if feature.is_camera or feature.kind != "number" or feature.numpy_dtype.kind != "f":
        raise WindowError(
            f"{name!r} is {feature.dtype}: only floating-point features have values between two "
            "frames. Use at='nearest' or at='previous' in its window."
        )


def rotation_elements(name: str, feature: Feature) -> NDArray[np.bool_]:
    """Return which elements are angles or parts of quaternions, by their names, in the value's shape.

    The name of the feature counts for all its elements. Elements without names are plain numbers.
    """
    shape = feature.value_shape
    whole = np.full(shape, _says_rotation(name))
    if feature.names is None or len(feature.names) != whole.size:
        return whole
    named = np.array([_says_rotation(one) for one in feature.names], bool).reshape(shape)
    either: NDArray[np.bool_] = named | whole
    return either


def interpolate(
    earlier: NDArray[Any],
    later: NDArray[Any],
    fractions: NDArray[np.float64],
    nearest: NDArray[np.bool_],
) -> NDArray[Any]:
    """Return values in proportion between two frames, in their own dtype.

    Args:
        earlier: Values of the frames before, ``(B, T, …)``.
        later: Values of the frames after, ``(B, T, …)``.
        fractions: How far on from the earlier to the later frame, ``(T,)``.
        nearest: Elements that are taken from the nearer frame, in the shape of a value.
    """
    steps = fractions.reshape(-1, *(1,) * nearest.ndim)
    weight = np.where(nearest, steps > 0.5, steps)
    # Exact at both ends, where one of the two is not finite as well.
    between = earlier + (later - earlier) * weight.astype(earlier.dtype)
    return np.where(weight == 0, earlier, np.where(weight == 1, later, between))


def _says_rotation(name: str) -> bool:
    words = _NEW_WORD.sub("_", name)  # wristRoll is wrist_Roll
    return _ROTATIONS.search(words.lower()) is not None
