"""LeRobot's encoder settings as ours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roboreel.errors import UnsupportedArgumentError
from roboreel.schema import Depth
from roboreel.video.encoding import Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.schema import Feature
    from roboreel.video.codecs import Codec

_CODECS: dict[str, Codec] = {
    "libsvtav1": "av1",
    "av1": "av1",
    "auto": "av1",
    "libx264": "h264",
    "h264": "h264",
    "libx265": "hevc",
    "hevc": "hevc",
}


def choose_depth(feature: Feature, encoder: Any | None) -> Feature:  # noqa: ANN401
    """Return a depth camera with the range of LeRobot's ``depth_encoder``; others unchanged."""
    if feature.depth is None or encoder is None:
        return feature
    if isinstance(encoder, Encoding):
        return feature if encoder.depth is None else replace(feature, depth=encoder.depth)
    depth = Depth(
        min_m=encoder.depth_min,
        max_m=encoder.depth_max,
        shift=encoder.shift,
        log=encoder.use_log,
        unit=feature.depth.unit,
    )
    return replace(feature, depth=depth)


def encodings_of(
    features: Mapping[str, Feature],
    *,
    vcodec: str | None = None,
    rgb_encoder: Any | None = None,  # noqa: ANN401  # LeRobot's RGBEncoderConfig, or an Encoding
    depth_encoder: Any | None = None,  # noqa: ANN401
    encoder_threads: int | None = None,
) -> dict[str, Encoding] | None:
    """Return the encoding of each video camera that LeRobot's arguments set.

    Args:
        features: The features of the dataset, depth as `choose_depth` returns it.
        vcodec: The codec of colour cameras, as LeRobot 0.4 takes it.
        rgb_encoder: Settings of colour cameras, as 0.6 takes them, or an `Encoding`.
        depth_encoder: Settings of depth cameras, or an `Encoding`.
        encoder_threads: Threads of every encoder.

    Returns:
        None if nothing is asked for, so that the recorder's own defaults apply.

    Raises:
        UnsupportedArgumentError: There is no such codec here.
    """
    chosen = {}
    if vcodec is not None:
        _codec(vcodec)  # A wrong name is refused, even if there is no camera.
    for name, feature in features.items():
        if not feature.is_video:
            continue
        if feature.depth is None:
            encoding = _colour(vcodec, rgb_encoder)
        else:
            encoding = _depth(feature.depth, depth_encoder)
        if encoder_threads is not None:
            encoding = encoding or _default(feature)
            encoding = replace(encoding, threads=encoder_threads)
        if encoding is not None:
            chosen[name] = encoding
    return chosen or None


def _default(feature: Feature) -> Encoding:
    return Encoding() if feature.depth is None else Encoding("hevc", depth=feature.depth)


def _colour(vcodec: str | None, encoder: Any | None) -> Encoding | None:  # noqa: ANN401
    if isinstance(encoder, Encoding):
        return encoder
    if encoder is not None:
        return _from_config(encoder, crf=encoder.crf)
    return None if vcodec is None else Encoding(_codec(vcodec))


def _depth(depth: Depth, encoder: Any | None) -> Encoding | None:  # noqa: ANN401
    if encoder is None:
        return None
    if isinstance(encoder, Encoding):
        return replace(encoder, depth=depth)
    if _codec(encoder.vcodec) != "hevc":
        raise UnsupportedArgumentError(
            f"depth_encoder has vcodec={encoder.vcodec!r}: depth is encoded as 'hevc' here."
        )
    lossless = "lossless=1" in str(encoder.extra_options.get("x265-params", ""))
    return replace(_from_config(encoder, crf=None if lossless else encoder.crf), depth=depth)


def _from_config(encoder: Any, *, crf: float | None) -> Encoding:  # noqa: ANN401
    codec = _codec(encoder.vcodec)
    options = {name: str(value) for name, value in encoder.extra_options.items()}
    if encoder.fast_decode:
        if codec == "av1":
            options.setdefault("svtav1-params", f"fast-decode={encoder.fast_decode}")
        else:
            options.setdefault("tune", "fastdecode")
    return Encoding(
        codec,
        keyframe_distance=Encoding().keyframe_distance if encoder.g is None else encoder.g,
        crf=crf,
        preset=encoder.preset,
        pix_fmt=encoder.pix_fmt,
        options=options,
    )


def _codec(name: str) -> Codec:
    if name not in _CODECS:
        raise UnsupportedArgumentError(
            f"Invalid vcodec {name!r}: roboreel encodes {', '.join(_CODECS)}."
        )
    return _CODECS[name]
