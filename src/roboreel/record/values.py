"""Values as arrays of the declared dtype and shape, or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from roboreel.schema import Feature


def check_frame(
    features: Mapping[str, Feature], frame: Mapping[str, object]
) -> dict[str, NDArray[Any]]:
    """Return the values of one frame as arrays ``(1, …)`` of the declared dtype.

    Raises:
        FrameError: A value is missing, is not declared, or has another dtype or shape.
    """
    check_names(features, frame)
    return {name: check_value(name, f, frame[name])[None] for name, f in features.items()}


def check_episode(
    features: Mapping[str, Feature], episode: Mapping[str, object]
) -> dict[str, NDArray[Any]]:
    """Return the values of one episode as arrays ``(T, …)`` of the declared dtype.

    Raises:
        FrameError: As for a frame; or the episode is empty, or the lengths differ.
    """
    check_names(features, episode)
    values = {name: _check_shape(name, f, episode[name], 1) for name, f in features.items()}
    lengths = {name: len(value) for name, value in values.items()}
    if len(set(lengths.values())) > 1:
        raise FrameError(f"The features of an episode differ in length: {lengths}.")
    if 0 in lengths.values():
        raise FrameError("The episode is empty: an episode has at least one frame.")
    return values


def check_names(declared: Collection[str], given: Collection[str]) -> None:
    """Raise if values are given for other features than the declared ones.

    Raises:
        FrameError: A feature is missing, or not declared.
    """
    missing = [name for name in declared if name not in given]
    extra = [name for name in given if name not in declared]
    if missing or extra:
        parts = [f"{missing} missing"] * bool(missing) + [f"{extra} not declared"] * bool(extra)
        raise FrameError(f"Not the declared features: {', '.join(parts)}. Give {list(declared)}.")


def check_value(name: str, feature: Feature, value: object) -> NDArray[Any]:
    """Return one value as an array of the declared dtype.

    Raises:
        FrameError: It has another dtype or shape.
    """
    return _check_shape(name, feature, value, 0)


def channels_hint(feature: Feature, shape: tuple[int, ...]) -> str:
    """Return what to do if the shape of an image has its channels first; nothing otherwise."""
    height, width, channels = feature.shape
    if shape != (channels, height, width):
        return ""
    return " Channels come last: move them with np.moveaxis(image, -3, -1)."


def _check_shape(name: str, feature: Feature, value: object, leading: int) -> NDArray[Any]:
    array = _check_dtype(name, feature, value)
    if array.shape[leading:] == feature.value_shape and array.ndim >= leading:
        return array
    if array.shape[leading:] == feature.shape and array.ndim > leading:
        # LeRobot gives scalars as arrays of one element.
        return array.reshape(array.shape[:leading])
    wanted = ("T", *feature.value_shape) if leading else feature.value_shape
    hint = channels_hint(feature, array.shape[leading:]) if feature.is_camera else ""
    shape = f"({', '.join(str(size) for size in wanted)}{',' * (len(wanted) == 1)})"
    raise FrameError(f"{name!r} has shape {array.shape}: {shape} is declared.{hint}")


def _check_dtype(name: str, feature: Feature, value: object) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError:
        raise FrameError(f"{name!r} is not an array: its parts differ in shape.") from None
    dtype = feature.numpy_dtype
    if array.dtype == dtype:
        return array
    # Python's own numbers have no width: they take the declared one if nothing is lost.
    if not isinstance(value, np.ndarray | np.generic) and not hasattr(value, "dtype"):
        typed = _without_loss(array, dtype)
        if typed is not None:
            return typed
    raise FrameError(f"{name!r} has dtype {array.dtype}: {dtype} is declared.")


def _without_loss(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    if not array.size or array.dtype.kind == dtype.kind == "f":
        return array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iuf":
        typed = array.astype(dtype)
        return typed if (typed == array).all() else None
    return None
