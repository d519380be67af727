"""What info.json says of a camera's video ⇄ Encoding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roboreel.video.encoding import CODECS, Encoding, frame_rate

if TYPE_CHECKING:
    from roboreel.schema import Feature

__all__ = ["encoding_of", "with_video_info"]


def encoding_of(feature: Feature) -> Encoding:
    """Return an encoding in the codec that the metadata of a camera names, or the default one."""
    if feature.depth is not None:
        return Encoding("hevc", depth=feature.depth)
    info = feature.extra.get("info") or feature.extra.get("video_info") or {}
    codec = info.get("video.codec")
    return Encoding(codec) if codec in CODECS else Encoding()


def with_video_info(feature: Feature, encoding: Encoding, fps: float) -> Feature:
    """Return a camera with what LeRobot's metadata says of its video.

    What concerns depth is in `Feature.depth`, and `feature_to_json` spells it.
    """
    rate = frame_rate(fps)
    info = {
        "video.height": feature.shape[0],
        "video.width": feature.shape[1],
        "video.codec": encoding.codec,
        "video.pix_fmt": encoding.pix_fmt,
        "video.fps": int(rate) if rate.denominator == 1 else float(rate),
        "video.channels": 3 if feature.depth is None else 1,
        "has_audio": False,
    }
    return replace(feature, extra={**feature.extra, "info": info})
