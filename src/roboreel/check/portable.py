"""What checks have seen, as plain values that another process can read. Nothing is executed."""

from __future__ import annotations

import base64
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from roboreel.check.checks import NotChecked
from roboreel.check.content import Extremes
from roboreel.check.episode_images import Damage, EpisodeImages
from roboreel.check.image_watch import StillRun
from roboreel.check.pixel_summary import PixelSummary
from roboreel.check.result import Findings
from roboreel.check.still_packets import Stretch
from roboreel.check.video_survey import VideoFile
from roboreel.findings import Finding
from roboreel.stats.moments import Moments

__all__ = ["from_plain", "to_plain"]

_RECORDS: dict[str, type[Any]] = {
    record.__name__: record
    for record in (
        *(Damage, EpisodeImages, Extremes, Finding, Findings, Moments),
        *(NotChecked, PixelSummary, StillRun, Stretch, VideoFile),
    )
}


def to_plain(value: Any) -> Any:  # noqa: ANN401  # anything that checks keep
    """Return a value as lists, texts and numbers.

    Raises:
        TypeError: It is of a kind that checks do not keep.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return ["array", value.dtype.str, list(value.shape), data]
    if isinstance(value, Path):
        return ["path", str(value)]
    if isinstance(value, list | tuple):
        return [type(value).__name__, [to_plain(one) for one in value]]
    if isinstance(value, set):
        return ["set", [to_plain(one) for one in sorted(value)]]
    if isinstance(value, dict):
        return ["dict", [[to_plain(key), to_plain(one)] for key, one in value.items()]]
    name = type(value).__name__
    if is_dataclass(value) and _RECORDS.get(name) is type(value):
        return [name, [to_plain(getattr(value, field.name)) for field in fields(value)]]
    raise TypeError(f"Checks do not keep a {name}.")


def from_plain(raw: Any) -> Any:  # noqa: ANN401  # what `to_plain` was given
    """Return the value that `to_plain` was given.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(raw, list):
        return raw
    kind = raw[0]
    if kind == "array":
        data = np.frombuffer(base64.b64decode(raw[3]), np.dtype(raw[1]))
        return data.reshape(raw[2]).copy()
    if kind == "path":
        return Path(raw[1])
    if kind == "dict":
        return {from_plain(key): from_plain(one) for key, one in raw[1]}
    values = [from_plain(one) for one in raw[1]]
    if kind in ("list", "tuple", "set"):
        return {"list": list, "tuple": tuple, "set": set}[kind](values)
    if kind not in _RECORDS:
        raise ValueError(f"Not what a check has seen: {kind!r}.")
    return _RECORDS[kind](*values)
