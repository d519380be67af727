"""Corrections of info.json: each takes what it says and returns what it should; other keys stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.format.features import feature_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    Raw = dict[str, Any]


def with_version(raw: Raw, version: str) -> Raw:
    """Return info.json with a version, as its first key."""
    others = {key: value for key, value in raw.items() if key != "codebase_version"}
    return {"codebase_version": version, **others}


def with_counts(raw: Raw, counts: Mapping[str, int]) -> Raw:
    """Return info.json with other counts of ``episodes``, ``frames`` and ``tasks``."""
    totals = {f"total_{noun}": count for noun, count in counts.items()}
    return {**raw, **{key: count for key, count in totals.items() if key in raw}}


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
