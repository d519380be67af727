"""The entries of info.json ⇄ Features."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from roboreel.errors import FeatureError, MetadataError
from roboreel.format.json_files import whole
from roboreel.schema import Depth, Feature

_MOST_ELEMENTS = 2**31
_CAMERA_AXES = ("height", "width", "channels")
_DEPTH_FIELDS = {"depth_min": "min_m", "depth_max": "max_m", "shift": "shift", "use_log": "log"}
_DEPTH_MARKERS = ("is_depth_map", "video.is_depth_map")
_OTHER_DTYPES = ("string", "language", "image", "video")


_ONE_WORD = re.compile(r"[<>=|]?[A-Za-z]\w*")


def feature_from_json(name: str, entry: Mapping[str, Any]) -> Feature:
    """Return the feature that an entry describes.

    Raises:
        MetadataError: The entry has no usable dtype or shape.
    """
    if not isinstance(entry, Mapping):
        raise MetadataError(f"Feature {name!r} is {entry!r} where an object was expected")
    # In Python, LeRobot's entries have tuples where JSON has lists.
    entry = {
        key: list(value) if isinstance(value, tuple) else value for key, value in entry.items()
    }
    dtype = _dtype(name, entry.get("dtype"))
    shape = _shape(name, entry.get("shape"))
    names = _flat_names(entry.get("names"))
    extra = {key: entry[key] for key in entry if key not in ("dtype", "shape", "names")}
    try:
        depth, extra = _split_depth(name, extra)
        if dtype in ("image", "video"):
            return Feature(dtype, _camera_shape(name, shape, names), _CAMERA_AXES, depth, extra)
        return Feature(dtype, shape, names, depth, extra)
    except FeatureError as error:
        raise MetadataError(f"Feature {name!r}: {str(error).rstrip('.')}") from error


def feature_to_json(feature: Feature) -> dict[str, Any]:
    """Return the entry that info.json has for a feature."""
    # LeRobot's policies look for the axes of a camera by name.
    names = feature.names or (_CAMERA_AXES if feature.is_camera else None)
    entry: dict[str, Any] = {
        "dtype": feature.dtype,
        "shape": list(feature.shape),
        "names": None if names is None else list(names),
    }
    entry |= feature.extra
    if feature.depth is not None or (feature.dtype == "video" and "info" in entry):
        entry["info"] = {**(entry.get("info") or {}), **_depth_to_json(feature.depth)}
    return entry


def _dtype(name: str, dtype: object) -> str:
    if dtype in _OTHER_DTYPES:
        return str(dtype)
    try:
        # One word: NumPy parses lists such as "3f4, i8" as Python, and raises SyntaxError.
        known = np.dtype(str(dtype)) if _ONE_WORD.fullmatch(str(dtype)) else None
    except (TypeError, ValueError):
        known = None
    if known is None or known.kind not in "biuf" or not isinstance(dtype, str):
        raise MetadataError(f"Feature {name!r} has the unknown dtype {dtype!r}")
    return known.name


def _shape(name: str, shape: object) -> tuple[int, ...]:
    if shape is None:
        return (1,)
    spelled = [whole(size) for size in (shape if isinstance(shape, list) else [shape])]
    sizes = [size for size in spelled if size is not None and size >= 0]
    if len(sizes) < len(spelled):
        raise MetadataError(
            f"Feature {name!r} has the shape {shape!r}, which is not a list of sizes"
        )
    if math.prod(sizes) > _MOST_ELEMENTS:
        raise MetadataError(f"Feature {name!r} has the shape {shape!r}, which is too large")
    return tuple(sizes) or (1,)


def _flat_names(names: object) -> tuple[str, ...] | None:
    """Return one name per element, whatever the form: list, nested list, dict, null."""
    if names is None:
        return None
    flat, left = [], [names]
    while left:  # No call per level: a file may have any number of them.
        one = left.pop()
        if isinstance(one, dict) and all(isinstance(value, int) for value in one.values()):
            # {"shoulder": 0, "elbow": 1}: the values are positions, not names.
            flat += [str(key) for key, _ in sorted(one.items(), key=lambda item: item[1])]
        elif isinstance(one, dict | list):
            left += reversed(list(one.values()) if isinstance(one, dict) else one)
        elif one is not None:
            flat.append(str(one))
    return tuple(flat)


def _camera_shape(
    name: str, shape: tuple[int, ...], names: tuple[str, ...] | None
) -> tuple[int, int, int]:
    if len(shape) == 2:
        return (*shape, 1)
    if len(shape) != 3:
        raise MetadataError(
            f"Camera {name!r} has the shape {list(shape)}: three sizes were expected"
        )
    axis = names[0].lower() if names and len(names) == 3 else ""
    channels_first = axis.startswith("c") or (
        not axis.startswith("h") and shape[0] in (1, 3, 4) and shape[2] not in (1, 3, 4)
    )
    first, second, third = shape
    return (second, third, first) if channels_first else (first, second, third)


def _split_depth(name: str, extra: dict[str, Any]) -> tuple[Depth | None, dict[str, Any]]:
    """Separate what concerns depth, which LeRobot has spelled in several ways."""
    marked = False
    fields: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for key, value in extra.items():
        if key in ("info", "video_info") and isinstance(value, dict):
            marked |= any(bool(value.get(marker)) for marker in _DEPTH_MARKERS)
            fields |= {k: v for k, v in value.items() if _is_depth_field(k)}
            value = {k: v for k, v in value.items() if not _is_depth_field(k)}
        elif key in _DEPTH_MARKERS:
            marked |= bool(value)
            continue
        kept[key] = value
    return (_depth_from_json(name, fields) if marked else None), kept


def _is_depth_field(key: str) -> bool:
    bare = key.removeprefix("video.")
    return bare in _DEPTH_FIELDS or bare in ("is_depth_map", "depth_unit")


def _depth_from_json(name: str, fields: Mapping[str, Any]) -> Depth:
    bare = {key.removeprefix("video."): value for key, value in fields.items()}
    try:
        values = {ours: float(bare[key]) for key, ours in _DEPTH_FIELDS.items() if key in bare}
    except (TypeError, ValueError) as error:
        raise MetadataError(f"Depth camera {name!r} has settings that are not numbers") from error
    log = bool(values.pop("log", True))
    return Depth(**values, log=log, unit=str(bare.get("depth_unit", "m")))


def _depth_to_json(depth: Depth | None) -> dict[str, Any]:
    if depth is None:
        return {"video.is_depth_map": False}
    return {
        "video.is_depth_map": True,
        "is_depth_map": True,
        "depth_unit": depth.unit,
        **{f"video.{key}": getattr(depth, ours) for key, ours in _DEPTH_FIELDS.items()},
    }
