"""The packet table: what is known of a video file's encoded images without decoding one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

__all__ = [
    "Coding",
    "Colour",
    "PacketColumns",
    "PacketTable",
    "decoding_starts",
    "join_columns",
    "reorder_depth",
]

# No decoder of FFmpeg holds back more images than this.
_MAX_REORDER = 16
# Keyframes to look back for one that is shown before the wanted image; the start of the file,
# where decoding is always right, if none of them is.
_MAX_LOOK_BACK = 16


class Colour(NamedTuple):
    """What a file says of its colours where the stream itself does not; ITU-T H.273 codes."""

    primaries: int
    transfer: int
    matrix: int
    full_range: bool


@dataclass(frozen=True, slots=True)
class Coding:
    """What a decoder must be told before the first packet; equal codings can share a decoder."""

    codec: str
    """FFmpeg's name of the decoder, or of the codec."""
    extradata: bytes
    """The codec's configuration record."""
    width: int
    height: int
    reorder: int = 0
    """How many images at most are decoded ahead of one that is shown before them."""
    colour: Colour | None = None

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width."""
        return self.height, self.width


@dataclass(frozen=True, slots=True, eq=False)
class PacketColumns:
    """Packets in decoding order, as a file lists them: see `PacketTable`."""

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    dts: NDArray[np.int64]
    pts: NDArray[np.int64]
    keyframe: NDArray[np.bool_]


def join_columns(parts: list[PacketColumns]) -> PacketColumns:
    """Return packets that follow one another as one list."""
    names = [column.name for column in fields(PacketColumns)]
    return PacketColumns(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


@dataclass(frozen=True, slots=True, eq=False)
class PacketTable:
    """The packets of one video track.

    A packet is one encoded image. The first five arrays are in decoding order, the last two in
    the order of presentation, with the file's edit list applied.
    """

    coding: Coding
    time_base: Fraction
    """Seconds per tick."""
    offset: NDArray[np.int64]
    """Position of each packet's bytes in the file, ``(P,)``; empty unless ``via`` is ``"mp4"``."""
    size: NDArray[np.int32]
    """Bytes of each packet, ``(P,)``."""
    dts: NDArray[np.int64]
    """Decoding tick of each packet, ``(P,)``."""
    pts: NDArray[np.int64]
    """Presentation tick of each packet before the edit list, ``(P,)``."""
    keyframe: NDArray[np.bool_]
    """Whether decoding can start at a packet, ``(P,)``."""
    shown: NDArray[np.int32]
    """The packet of each image that is shown, ``(N,)``, in the order of presentation."""
    ticks: NDArray[np.int64]
    """The tick at which each of them is shown, ``(N,)``, ascending."""
    via: Literal["mp4", "ffmpeg"] = "mp4"
    """Who read the table: our own parser, or FFmpeg's demuxer, which is slower at random access."""
    start: NDArray[np.int32] = field(init=False)
    """The keyframe at which decoding of each packet starts, ``(P,)``: see `decoding_starts`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", decoding_starts(self.keyframe, self.pts))

    @property
    def nbytes(self) -> int:
        """Memory that the table takes; arrays that stand for two columns count once."""
        arrays = (
            *(self.offset, self.size, self.dts, self.pts),
            *(self.keyframe, self.start, self.shown, self.ticks),
        )
        return sum(array.nbytes for array in {id(array): array for array in arrays}.values())


def decoding_starts(keyframe: NDArray[np.bool_], pts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the packet at which decoding must start for each packet to come out right.

    That is the last keyframe which is neither decoded nor shown after it. The leading images of an
    open group, which are shown before their keyframe and lean on the group before it, so start one
    keyframe further back.

    Args:
        keyframe: Whether decoding can start at each packet, in decoding order, ``(P,)``; true for
            the first.
        pts: Presentation tick of each packet, in decoding order, ``(P,)``.

    Examples:
        >>> decoding_starts(np.array([True, False, True, False]), np.array([0, 1, 3, 2]))
        array([0, 0, 2, 0], dtype=int32)
    """
    keyframes = np.flatnonzero(keyframe).astype(np.int32)
    group = np.cumsum(keyframe) - 1
    leading = np.flatnonzero(pts[keyframes[group]] > pts)
    for _ in range(_MAX_LOOK_BACK):
        leading = leading[group[leading] > 0]
        if len(leading) == 0:
            break
        group[leading] -= 1
        leading = leading[pts[keyframes[group[leading]]] > pts[leading]]
    group[leading] = 0
    starts: NDArray[np.int32] = keyframes[group]
    return starts


def reorder_depth(pts: NDArray[np.int64]) -> int:
    """Return how many packets at most are decoded before one that is shown earlier than they.

    Args:
        pts: Presentation ticks in decoding order, ``(P,)``.

    Examples:
        >>> reorder_depth(np.array([0, 4, 2, 1, 3]))
        2
    """
    # An image decoded as number s and shown as number r waited for at least s - r others, and
    # the image for which this is largest for no more.
    ahead = np.argsort(pts, kind="stable") - np.arange(len(pts))
    return min(int(ahead.max(initial=0)), _MAX_REORDER)
