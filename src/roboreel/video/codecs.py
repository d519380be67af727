"""The codecs of video: their names everywhere, and what FFmpeg needs to read them.

A codec that is to be read gets a line here and its boxes in `mp4`; one to be written, an encoder in
`encoding`; one whose packets are to be told apart, a test in `nal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Codec = Literal["av1", "h264", "hevc"]
"""The codecs that images can be encoded in."""


@dataclass(frozen=True, slots=True)
class _Names:
    """What a codec is called by others."""

    others: tuple[str, ...]
    """By encoders, decoders, MP4 files and ROS messages."""
    decoder: str
    """FFmpeg's name of the decoder."""
    stream_format: str | None = None
    """FFmpeg's name of the bare stream; None if none is read."""


_CODECS = {
    # FFmpeg's own decoder of AV1 needs hardware support.
    "av1": _Names(("libsvtav1", "libaom-av1", "libdav1d", "av01"), "libdav1d", "obu"),
    "h264": _Names(("libx264", "h264_nvenc", "h264_vaapi", "avc", "avc1"), "h264", "h264"),
    "hevc": _Names(("libx265", "hevc_nvenc", "hevc_vaapi", "h265", "hvc1"), "hevc", "hevc"),
    "vp9": _Names(("libvpx-vp9", "vp09"), "vp9"),
    "mpeg4": _Names(("mp4v",), "mpeg4"),
}
_BY_NAME = {other: codec for codec, names in _CODECS.items() for other in names.others}
STREAMED = tuple(codec for codec, names in _CODECS.items() if names.stream_format)
"""The codecs whose packets are read without a file around them."""


def codec_name(name: str) -> str:
    """Return our name of a codec, which is FFmpeg's; of one that is not known, the name as it is.

    Examples:
        >>> codec_name("libx265"), codec_name("AVC1"), codec_name("prores")
        ('hevc', 'h264', 'prores')
    """
    lower = name.lower()
    return _BY_NAME.get(lower, lower)


def decoder_name(codec: str) -> str:
    """Return FFmpeg's name of the decoder of a codec."""
    return _CODECS[codec].decoder if codec in _CODECS else codec


def stream_format(codec: Codec) -> str:
    """Return FFmpeg's name of a bare stream of a codec."""
    return str(_CODECS[codec].stream_format)
