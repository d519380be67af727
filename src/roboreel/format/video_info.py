"""What info.json says of a camera's video ⇄ Encoding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roboreel.video.codecs import codec_name
from roboreel.video.encoding import CODECS, Encoding, frame_rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.schema import Feature


def encoding_of(feature: Feature) -> Encoding:
    """Return an encoding in the codec that the metadata of a camera names, or the default one."""
    if feature.depth is not None:
        return Encoding("hevc", depth=feature.depth)
    codec = _video_info(feature).get("video.codec")
    return Encoding(codec) if codec in CODECS else Encoding()


def declared_codec(feature: Feature) -> str | None:
    """Return FFmpeg's name of the codec that the metadata of a camera names; None if it does not."""
    codec = _video_info(feature).get("video.codec")
    # Some write the encoder, or the box of the MP4 file, where the codec belongs.
    return codec_name(codec) if isinstance(codec, str) else None


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
        **_settings(encoding),
    }
    return replace(feature, extra={**feature.extra, "info": info})


def with_coding(
    feature: Feature, encoding: Encoding | None, size: tuple[int, int] | None, fps: float
) -> Feature:
    """Return a camera whose video is encoded otherwise.

    Args:
        feature: The camera as it is.
        encoding: How it is encoded; None for the codec that it has.
        size: Height and width; None if they stay.
        fps: Images per second.
    """
    shape = feature.shape if size is None else (*size, feature.shape[2])
    extra = {key: value for key, value in feature.extra.items() if key != "video_info"}
    resized = replace(feature, shape=shape, extra=extra)
    return with_video_info(resized, encoding or encoding_of(feature), fps)


def _settings(encoding: Encoding) -> dict[str, Any]:
    """Return how the encoder is set, under the names that LeRobot has for it since 0.6."""
    used = encoding.encoder_options()
    crf = float(used["crf"])
    given = dict(encoding.options)
    if encoding.is_lossless:
        given.setdefault("x265-params", "lossless=1")
    return {
        "video.g": int(used["g"]),
        "video.crf": None if encoding.is_lossless else int(crf) if crf.is_integer() else crf,
        "video.preset": int(used["preset"]) if used["preset"].isdigit() else used["preset"],
        "video.fast_decode": 0,
        "video.video_backend": "pyav",
        "video.extra_options": given,
    }


def _video_info(feature: Feature) -> Mapping[str, Any]:
    info = feature.extra.get("info") or feature.extra.get("video_info")
    return info if isinstance(info, dict) else {}
