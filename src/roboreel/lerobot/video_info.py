"""What info.json says of the videos of a camera, in LeRobot's keys."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from roboreel.video.probe import probe_video

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_LEGACY_DEPTH = "video.is_depth_map"


def video_info(
    path: Path,
    encoder: Any | None,  # noqa: ANN401  # LeRobot's settings
    known: Mapping[str, Any],
    kept: Collection[str],
) -> dict[str, Any]:
    """Return what info.json says of a camera, described anew.

    Args:
        path: One of its videos.
        encoder: LeRobot's settings that it was encoded with, if they are known.
        known: What info.json says now.
        kept: Keys that keep their value.
    """
    found = probe_video(path)
    info: dict[str, Any] = {
        "video.height": found.height,
        "video.width": found.width,
        "video.codec": found.codec,
        "video.pix_fmt": found.pix_fmt,
        "video.fps": int(found.fps),
        "video.channels": found.channels,
        "has_audio": found.has_audio,
    }
    settings = {} if encoder is None else asdict(encoder)
    info |= {
        f"video.{name}": value
        for name, value in settings.items()
        if name != "vcodec" and f"video.{name}" not in info
    }
    info["is_depth_map"] = hasattr(encoder, "depth_min")
    merged = {**known, **{key: value for key, value in info.items() if key not in kept}}
    if _LEGACY_DEPTH in merged:
        merged.setdefault("is_depth_map", merged.pop(_LEGACY_DEPTH))
    return merged
