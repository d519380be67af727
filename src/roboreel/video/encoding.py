"""How a camera's images become video."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Real
from typing import TYPE_CHECKING

from roboreel.errors import EncodingError
from roboreel.video.codecs import FACTS

if TYPE_CHECKING:
    from roboreel.schema import Depth
    from roboreel.video.codecs import Codec, Encoder


_ENCODERS: dict[Codec, Encoder] = {
    codec: facts.encoder  # type: ignore[misc]  # `Codec` lists those that have one
    for codec, facts in FACTS.items()
    if facts.encoder
}
# With loss, distances are wrong by up to a metre at the edges of near objects.
_DEPTH_PARAMS = "lossless=1"

CODECS = tuple(_ENCODERS)
"""The codecs that images can be encoded in."""
ENCODERS = tuple(encoder.name for encoder in _ENCODERS.values())
"""FFmpeg's names of the encoders that are used."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a camera's images become video.

    The defaults are LeRobot's: AV1 with a keyframe at every other image, so that no image needs
    more than two to be decoded.

    Examples:
        >>> Encoding().encoder_options()["svtav1-params"]
        'lp=2'
        >>> Encoding("h264", keyframe_distance=30, options={"tune": "film"}).encoder
        'libx264'
    """

    codec: Codec = "av1"
    keyframe_distance: int = 2
    """Images from one keyframe to the next, at most."""
    crf: float | None = None
    """Constant quality, lower is better; None is 30 for AV1, 23 for H.264, 26 for HEVC, and lossless
    for depth."""
    preset: str | int | None = None
    """The encoder's own preset; None is a fast one."""
    pix_fmt: str = "yuv420p"
    """FFmpeg's name of the pixel format; always ``gray12le`` if ``depth`` is set."""
    threads: int = 2
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Further options of the FFmpeg encoder, which take precedence over the fields above."""
    depth: Depth | None = None
    """Set for a depth camera: distances become 12-bit codes, in HEVC."""

    def __post_init__(self) -> None:
        if self.codec not in _ENCODERS:
            known = ", ".join(repr(codec) for codec in _ENCODERS)
            raise EncodingError(f"No codec {self.codec!r}: choose one of {known}.")
        self._check_values()
        if self.depth is not None:
            if self.codec != "hevc":
                raise EncodingError(
                    f"Depth needs 12 bits, which {self.codec} does not offer: use codec='hevc'."
                )
            object.__setattr__(self, "pix_fmt", "gray12le")

    def _check_values(self) -> None:
        for name in ("keyframe_distance", "threads"):
            value = getattr(self, name)
            if not _is(value, Integral) or value < 1:
                raise EncodingError(f"{name} is {value!r}: give a whole number, at least 1.")
        if self.crf is not None and not (_is(self.crf, Real) and math.isfinite(self.crf)):
            raise EncodingError(f"crf is {self.crf!r}: give a number, or None for the default.")
        preset: object = self.preset
        if preset is not None and not isinstance(preset, str | int):
            raise EncodingError(f"preset is {preset!r}: give a name or a number.")
        options: object = self.options
        if not isinstance(options, Mapping) or not all(
            isinstance(text, str) for pair in options.items() for text in pair
        ):
            raise EncodingError(f"options is {options!r}: give texts by name, {{'tune': 'film'}}.")

    @property
    def encoder(self) -> str:
        """FFmpeg's name of the encoder."""
        return _ENCODERS[self.codec].name

    @property
    def is_lossless(self) -> bool:
        """Whether distances are stored exactly, as they are unless ``crf`` is given."""
        return self.depth is not None and self.crf is None

    def encoder_options(self) -> dict[str, str]:
        """Return the options for FFmpeg's encoder."""
        encoder = _ENCODERS[self.codec]
        options = {
            "g": str(self.keyframe_distance),
            # No image depends on a later one: files join cleanly and need no edit list.
            "bf": "0",
            "crf": f"{encoder.crf if self.crf is None else self.crf:g}",
            "preset": str(encoder.preset if self.preset is None else self.preset),
        }
        options |= {k: v.format(threads=self.threads) for k, v in encoder.options.items()}
        if self.is_lossless:
            options["x265-params"] += f":{_DEPTH_PARAMS}"
        return options | self._given_options(options)

    def _given_options(self, options: Mapping[str, str]) -> dict[str, str]:
        # Libraries read parameters from left to right, so those of the caller come last.
        params = _ENCODERS[self.codec].params
        given = dict(self.options)
        if params is not None and params in given:
            given[params] = f"{options[params]}:{given[params]}"
        return given


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


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
