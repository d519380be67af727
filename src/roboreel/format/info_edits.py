"""Corrections of info.json: each takes what it says and returns what it should; other keys stay."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from roboreel.errors import MetadataError
from roboreel.format.features import feature_from_json
from roboreel.format.json_files import read_json
from roboreel.format.paths import info_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Raw = dict[str, Any]

_SPLIT = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*")


def read_raw_info(root: Path) -> Raw:
    """Return what info.json holds, as it is.

    Raises:
        MetadataError: It is not a JSON object.
    """
    raw = read_json(info_path(root))
    if not isinstance(raw, dict):
        raise MetadataError(f"An object was expected: {str(info_path(root))!r}.")
    return raw


def with_version(raw: Raw, version: str) -> Raw:
    """Return info.json with a version, as its first key."""
    others = {key: value for key, value in raw.items() if key != "codebase_version"}
    return {"codebase_version": version, **others}


def with_counts(raw: Raw, counts: Mapping[str, int]) -> Raw:
    """Return info.json with other counts of ``episodes``, ``frames`` and ``tasks``."""
    totals = {f"total_{noun}": count for noun, count in counts.items()}
    return {**raw, **{key: count for key, count in totals.items() if key in raw}}


def with_splits(raw: Raw, num_episodes: int) -> Raw:
    """Return info.json with splits that end where the episodes do; a single split has them all."""
    splits = raw.get("splits")
    if not isinstance(splits, dict):
        return raw
    if len(splits) == 1:
        return {**raw, "splits": dict.fromkeys(splits, f"0:{num_episodes}")}
    return {**raw, "splits": {name: _clipped(s, num_episodes) for name, s in splits.items()}}


def with_video_format(
    raw: Raw, camera: str, *, size: tuple[int, int], channels: int, codec: str | None
) -> Raw:
    """Return info.json with another size, number of channels and codec of a camera.

    Args:
        raw: What info.json says.
        camera: The camera.
        size: Height and width.
        channels: Channels of an image.
        codec: The codec; None if what is there is right.
    """
    entry = dict(raw["features"][camera])
    height, width = size
    axes = {"height": height, "width": width, "channels": channels}
    first = _is_channels_first(camera, entry)
    order = ("channels", "height", "width") if first else ("height", "width", "channels")
    entry["shape"] = [axes[axis] for axis in order]
    for key in ("info", "video_info"):
        if isinstance(entry.get(key), dict):
            said: Raw = {f"video.{axis}": value for axis, value in axes.items()}
            if codec is not None:
                said["video.codec"] = codec
            there = {name: value for name, value in said.items() if name in entry[key]}
            entry[key] = {**entry[key], **there}
    return {**raw, "features": {**raw["features"], camera: entry}}


def _is_channels_first(camera: str, entry: Raw) -> bool:
    height, width, channels = feature_from_json(camera, entry).shape
    stored = list(entry.get("shape") or ())
    return stored == [channels, height, width] and stored != [height, width, channels]


def _clipped(spelled: object, num_episodes: int) -> object:
    match = _SPLIT.fullmatch(str(spelled))
    if match is None or int(match[1]) > int(match[2]):
        return spelled
    start, stop = (min(int(end), num_episodes) for end in match.groups())
    return spelled if (start, stop) == (int(match[1]), int(match[2])) else f"{start}:{stop}"
