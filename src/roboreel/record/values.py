"""Values at the door: they fit their features, or nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.schema import Feature

__all__ = ["check_episode", "check_frame"]


def check_frame(
    features: Mapping[str, Feature], frame: Mapping[str, object]
) -> dict[str, NDArray[Any]]:
    """Return the values of one frame as arrays ``(1, …)`` of the declared dtype.

    Raises:
        FrameError: A value is missing, is not declared, or has another dtype or shape.
    """
    _check_names(features, frame)
    return {name: _typed(name, feature, frame[name], 0)[None] for name, feature in features.items()}


def check_episode(
    features: Mapping[str, Feature], episode: Mapping[str, object]
) -> dict[str, NDArray[Any]]:
    """Return the values of one episode as arrays ``(T, …)`` of the declared dtype.

    Raises:
        FrameError: As for a frame; or the episode is empty, or the lengths differ.
    """
    _check_names(features, episode)
    values = {name: _typed(name, feature, episode[name], 1) for name, feature in features.items()}
    lengths = {name: len(value) for name, value in values.items()}
    if len(set(lengths.values())) > 1:
        raise FrameError(f"The features of an episode differ in length: {lengths}.")
    if 0 in lengths.values():
        raise FrameError("The episode is empty: an episode has at least one frame.")
    return values


def _check_names(features: Mapping[str, Feature], values: Mapping[str, object]) -> None:
    missing = [name for name in features if name not in values]
    extra = [name for name in values if name not in features]
    if missing or extra:
        parts = [f"{missing} missing"] * bool(missing) + [f"{extra} not declared"] * bool(extra)
        raise FrameError(f"Not the declared features: {', '.join(parts)}. Give {list(features)}.")


def _typed(name: str, feature: Feature, value: object, leading: int) -> NDArray[Any]:
    array = _array(name, feature, value)
    if array.shape[leading:] == feature.value_shape and array.ndim >= leading:
        return array
    if array.shape[leading:] == feature.shape and array.ndim > leading:
        # LeRobot gives scalars as arrays of one element.
        return array.reshape(array.shape[:leading])
    wanted = ("T", *feature.value_shape) if leading else feature.value_shape
    hint = ""
    if feature.is_camera and array.shape[leading:] == (feature.shape[2], *feature.shape[:2]):
        hint = " Channels come last: move them with np.moveaxis."
    shape = f"({', '.join(str(size) for size in wanted)}{',' * (len(wanted) == 1)})"
    raise FrameError(f"{name!r} has shape {array.shape}: {shape} is declared.{hint}")


def _array(name: str, feature: Feature, value: object) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError:
        raise FrameError(f"{name!r} is not an array: its parts differ in shape.") from None
    dtype = feature.numpy_dtype
    if array.dtype == dtype:
        return array
    # Python's own numbers have no width; they take the declared one if nothing is lost.
    if not isinstance(value, np.ndarray | np.generic) and not hasattr(value, "dtype"):
        typed = _narrowed(array, dtype)
        if typed is not None:
            return typed
    raise FrameError(f"{name!r} has dtype {array.dtype}: {dtype} is declared.")


def _narrowed(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    if not array.size or array.dtype.kind == dtype.kind == "f":
        return array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iuf":
        typed = array.astype(dtype)
        return typed if (typed == array).all() else None
    return None
