"""The codecs of video, each described once: names, files, NAL units, encoder.

A codec that is to be read gets an entry here, and its test for keyframes in `nal`. What it is called
by Rerun and by LeRobot's options stands in `rerun` and `lerobot`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

Codec = Literal["av1", "h264", "hevc"]
"""The codecs that images can be encoded in."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """One encoder of FFmpeg, and its defaults."""

    name: str
    crf: float
    preset: str
    options: Mapping[str, str]
    """Options that are always set; ``{threads}`` stands for the number of threads."""
    params: str | None = None
    """The option that passes ``name=value:name=value`` on to the library, if there is one."""


@dataclass(frozen=True, slots=True)
class NalUnits:
    """How packets are made of NAL units, whose first byte holds their type."""

    shift: int
    """How many bits of the first byte follow the type."""
    mask: int
    sequence_set: int
    """The type of a sequence parameter set."""
    keyframes: Container[int]
    """Types of images at which decoding can start."""
    restarts: Container[int]
    """Types of those that count images anew, so that they may follow packets of another video."""
    length_at: int
    """Which byte of the configuration record says how long the length before each unit is."""
    sets_at: int
    """Which byte of the record the parameter sets begin at."""

    def type_of(self, first: int) -> int:
        """Return the type of a unit, by its first byte."""
        return first >> self.shift & self.mask


@dataclass(frozen=True, slots=True)
class CodecFacts:
    """What there is to know of one codec."""

    others: tuple[str, ...]
    """What encoders, decoders and ROS messages call it, beside our own name, which is FFmpeg's."""
    decoder: str
    """FFmpeg's name of the decoder."""
    stream_format: str | None = None
    """FFmpeg's name of the bare stream; None if none is read."""
    entries: tuple[bytes, ...] = ()
    """The types of its entries in an MP4 file's ``stsd`` box; other files are left to FFmpeg."""
    record: bytes | None = None
    """The box with its configuration record; None if its packets say it all."""
    tag: str | None = None
    """The entry that is written; None for FFmpeg's own choice."""
    nal: NalUnits | None = None
    encoder: Encoder | None = None
    """None if images are not encoded in it."""


# Threads are limited, so that several cameras can share a small computer. Keyframes come at fixed
# distances: a robot's camera has no scene cuts to detect.
FACTS = {
    "av1": CodecFacts(
        ("libsvtav1", "libaom-av1", "libdav1d", "av01"),
        "libdav1d",  # FFmpeg's own decoder of AV1 needs hardware support.
        stream_format="obu",
        entries=(b"av01",),
        record=b"av1C",
        # Nothing that shrinks the queues of SVT-AV1: with lookahead=0 and hierarchical-levels=2 the
        # end of an episode comes 0.1 s sooner, but the encoder reuses pictures that are still being
        # read. On a busy machine it then writes packets that no decoder takes, or waits for ever.
        encoder=Encoder("libsvtav1", 30, "12", {"svtav1-params": "lp={threads}"}, "svtav1-params"),
    ),
    "h264": CodecFacts(
        ("libx264", "h264_nvenc", "h264_vaapi", "avc", "avc1"),
        "h264",
        stream_format="h264",
        entries=(b"avc1", b"avc3"),
        record=b"avcC",
        nal=NalUnits(
            shift=0,
            mask=31,
            sequence_set=7,
            keyframes=(5,),  # IDR
            restarts=(5,),
            length_at=4,
            sets_at=5,
        ),
        encoder=Encoder("libx264", 23, "veryfast", {"sc_threshold": "0"}),
    ),
    "hevc": CodecFacts(
        ("libx265", "hevc_nvenc", "hevc_vaapi", "h265", "hvc1"),
        "hevc",
        stream_format="hevc",
        entries=(b"hvc1", b"hev1"),
        record=b"hvcC",
        tag="hvc1",  # Of the two, Apple's players know only this one.
        nal=NalUnits(
            shift=1,
            mask=63,
            sequence_set=33,
            keyframes=range(16, 22),  # BLA, IDR and CRA
            restarts=range(16, 21),  # BLA and IDR, but not CRA
            length_at=21,
            sets_at=22,
        ),
        # x265 writes open GOPs by default, whose pictures need the GOP before: they cannot be cut.
        encoder=Encoder(
            "libx265",
            26,
            "ultrafast",
            {
                "x265-params": "log-level=error:open-gop=0:scenecut=0:pools={threads}:frame-threads=1"
            },
            "x265-params",
        ),
    ),
    # Its record would confuse the decoder.
    "vp9": CodecFacts(("libvpx-vp9", "vp09"), "vp9", entries=(b"vp09",)),
    "mpeg4": CodecFacts(("mp4v",), "mpeg4"),
}
_BY_NAME = {other: codec for codec, facts in FACTS.items() for other in facts.others}
STREAMED = tuple(codec for codec, facts in FACTS.items() if facts.stream_format)
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
    return FACTS[codec].decoder if codec in FACTS else codec


def nal_units(codec: str) -> NalUnits | None:
    """Return how packets of a codec are made of NAL units; None if they are not."""
    return FACTS[codec].nal if codec in FACTS else None
