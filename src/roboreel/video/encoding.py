"""How a camera's images become video."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from roboreel.errors import EncodingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.schema import Depth

__all__ = ["CODECS", "ENCODERS", "Codec", "Encoding", "frame_rate"]

Codec = Literal["av1", "h264", "hevc"]


@dataclass(frozen=True, slots=True)
class _Encoder:
    """One encoder of FFmpeg, and what it does unless told otherwise."""

    name: str
    crf: float
    preset: str
    options: Mapping[str, str]
    """What it is always told; ``{threads}`` stands for the number of threads."""
    params: str | None = None
    """The option that passes ``name=value:name=value`` on to the library, if there is one."""


# Threads are few and counted, so that several cameras share a small computer. Keyframes come at
# an even beat: a robot's camera has no scene cuts to look for.
_ENCODERS: dict[Codec, _Encoder] = {
    # Looking ahead changes no byte at a keyframe distance of 2, and doubles the wait at the end.
    "av1": _Encoder(
        "libsvtav1", 30, "12", {"svtav1-params": "lp={threads}:lookahead=0"}, "svtav1-params"
    ),
    "h264": _Encoder("libx264", 23, "veryfast", {"sc_threshold": "0"}),
    # x265 opens its GOPs by default: pictures then lean on the GOP before, and cannot be cut off.
    "hevc": _Encoder(
        "libx265",
        26,
        "ultrafast",
        {"x265-params": "log-level=error:open-gop=0:scenecut=0:pools={threads}:frame-threads=1"},
        "x265-params",
    ),
}
# Small groups change no byte where keyframes are so close, and the encoder holds back 8 images
# rather than 11: those are what a kill costs, and what the end of an episode waits for.
_SHORT_DISTANCE, _SHORT_PARAMS = 2, "hierarchical-levels=2"
# Lossy codes are wrong by up to a metre where a near object ends.
_DEPTH_PARAMS = "lossless=1"

CODECS = tuple(_ENCODERS)
"""The codecs that images can be encoded in."""
ENCODERS = tuple(encoder.name for encoder in _ENCODERS.values())
"""FFmpeg's names of the encoders that we use."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a camera's images become video.

    The defaults are LeRobot's: AV1 with a keyframe at every other image, so that any image is
    found by decoding two at most.

    Examples:
        >>> Encoding().encoder_options()["svtav1-params"]
        'lp=2:lookahead=0:hierarchical-levels=2'
        >>> Encoding("h264", keyframe_distance=30, options={"tune": "film"}).encoder
        'libx264'
    """

    codec: Codec = "av1"
    keyframe_distance: int = 2
    """A keyframe at least every so many images."""
    crf: float | None = None
    """Constant quality, lower is better; None takes 30 for AV1, 23 for H.264, 26 for HEVC, and
    for depth no loss at all."""
    preset: str | int | None = None
    """Speed of the encoder, in its own words; None takes a fast one."""
    pix_fmt: str = "yuv420p"
    """How pixels are stored, in FFmpeg's words; ``gray12le`` always when ``depth`` is set."""
    threads: int = 2
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Further options of the FFmpeg encoder; they win over those made from the fields above."""
    depth: Depth | None = None
    """Set for a depth camera: distances become 12-bit codes, in HEVC."""

    def __post_init__(self) -> None:
        if self.codec not in _ENCODERS:
            known = ", ".join(repr(codec) for codec in _ENCODERS)
            raise EncodingError(f"No codec {self.codec!r}: choose one of {known}.")
        if self.keyframe_distance < 1 or self.threads < 1:
            raise EncodingError(
                f"keyframe_distance={self.keyframe_distance} and threads={self.threads} "
                "count from 1."
            )
        if self.depth is not None:
            if self.codec != "hevc":
                raise EncodingError(
                    f"Depth needs 12 bits, which {self.codec} has not: use codec='hevc'."
                )
            object.__setattr__(self, "pix_fmt", "gray12le")

    @property
    def encoder(self) -> str:
        """FFmpeg's name of the encoder."""
        return _ENCODERS[self.codec].name

    def encoder_options(self) -> dict[str, str]:
        """Return what FFmpeg's encoder is told."""
        encoder = _ENCODERS[self.codec]
        options = {
            "g": str(self.keyframe_distance),
            # No image waits for a later one: files join cleanly and need no edit list.
            "bf": "0",
            "crf": f"{encoder.crf if self.crf is None else self.crf:g}",
            "preset": str(encoder.preset if self.preset is None else self.preset),
        }
        options |= {k: v.format(threads=self.threads) for k, v in encoder.options.items()}
        if self.codec == "av1" and self.keyframe_distance <= _SHORT_DISTANCE:
            options["svtav1-params"] += f":{_SHORT_PARAMS}"
        if self.depth is not None and self.crf is None:
            options["x265-params"] += f":{_DEPTH_PARAMS}"
        return options | self._given_options(options)

    def _given_options(self, options: Mapping[str, str]) -> dict[str, str]:
        # Libraries read their settings from left to right: what is given comes last, and wins.
        params = _ENCODERS[self.codec].params
        given = dict(self.options)
        if params is not None and params in given:
            given[params] = f"{options[params]}:{given[params]}"
        return given


def frame_rate(fps: float | Fraction) -> Fraction:
    """Return a rate as an exact fraction, so that every image falls on a tick of the file.

    Examples:
        >>> frame_rate(30), frame_rate(29.97), frame_rate(30000 / 1001)
        (Fraction(30, 1), Fraction(2997, 100), Fraction(30000, 1001))
    """
    rate = Fraction(fps).limit_denominator(10_000) if fps > 0 else Fraction(0)
    if rate <= 0:
        raise EncodingError(f"A video needs a rate above 0 images per second, not {fps}.")
    return rate
