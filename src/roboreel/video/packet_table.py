"""The packet table of a video file: all that is known of its packets without decoding them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from roboreel.video.clip import usual_step

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

MAX_TICK = 2**61
"""Larger ticks and offsets are taken for damage. The sum of two still fits 64 bits."""
# No FFmpeg decoder holds back more images than this.
_MAX_REORDER = 16
# How many keyframes to go back for one that is shown before the wanted image. If there is none,
# decoding starts at the beginning of the file, which is always right.
_MAX_LOOK_BACK = 16
_serials = count()


class Colour(NamedTuple):
    """Colour space that a file declares in case its stream does not, in ITU-T H.273 codes."""

    primaries: int
    transfer: int
    matrix: int
    full_range: bool


@dataclass(frozen=True, slots=True)
class Coding:
    """What a decoder must know before the first packet. Equal codings can share a decoder."""

    codec: str
    """FFmpeg's name for the decoder or the codec."""
    extradata: bytes
    """The codec's configuration record."""
    width: int
    height: int
    reorder: int = 0
    """At most how many images are decoded before one that is shown earlier."""
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

    A packet is one encoded image. Arrays ``(P,)`` are in decoding order. Arrays ``(N,)`` are in
    order of presentation, after the file's edit list.
    """

    coding: Coding
    time_base: Fraction
    """Seconds per tick."""
    offset: NDArray[np.int64]
    """Position of each packet in the file, ``(P,)``; empty unless ``via`` is ``"mp4"``."""
    size: NDArray[np.int32]
    """Size of each packet in bytes, ``(P,)``."""
    dts: NDArray[np.int64]
    """Decoding tick of each packet, ``(P,)``."""
    pts: NDArray[np.int64]
    """Presentation tick of each packet before the edit list, ``(P,)``."""
    keyframe: NDArray[np.bool_]
    """Whether decoding can start at each packet, ``(P,)``."""
    shown: NDArray[np.int32]
    """The packet of each image that is shown, ``(N,)``."""
    ticks: NDArray[np.int64]
    """The tick at which each image is shown, ``(N,)``, ascending."""
    via: Literal["mp4", "ffmpeg"] = "mp4"
    """What read the table: our own parser, or FFmpeg's demuxer, which is slower at random access."""
    lists_keyframes: bool = True
    """Whether the file lists its keyframes. If not, every packet is taken for one, as MP4 says."""
    new_settings: Mapping[int, bytes] = field(default_factory=dict)
    """Packets from which on another configuration record holds than the coding's, with that record."""
    index_at_end: bool = False
    """Whether the file lists its packets after them, so that readers must first go to its end."""
    start: NDArray[np.int32] = field(init=False)
    """The keyframe at which to start decoding each packet, ``(P,)``: see `decoding_starts`."""
    step: float = field(init=False)
    """How far images are usually apart, in ticks: see `usual_step`."""
    serial: int = field(init=False)
    """Differs from that of every other table of the process; a file that changed has a new one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", usual_step(self.ticks))
        object.__setattr__(self, "serial", next(_serials))
        object.__setattr__(self, "start", decoding_starts(self.keyframe, self.pts))

    @property
    def nbytes(self) -> int:
        """Memory that the table takes. An array that serves as two columns counts once."""
        arrays = (
            *(self.offset, self.size, self.dts, self.pts),
            *(self.keyframe, self.start, self.shown, self.ticks),
        )
        return sum(array.nbytes for array in {id(array): array for array in arrays}.values())


def decoding_starts(keyframe: NDArray[np.bool_], pts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the keyframe at which to start decoding each packet, ``(P,)``.

    That is the last keyframe that is neither decoded nor shown after it. The leading images of an
    open GOP are shown before their keyframe and depend on the GOP before it, so they start one
    keyframe further back.

    Args:
        keyframe: Whether decoding can start at each packet, in decoding order, ``(P,)``. True for
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
    """Return at most how many packets are decoded before one that is shown earlier.

    Args:
        pts: Presentation ticks in decoding order, ``(P,)``.

    Examples:
        >>> reorder_depth(np.array([0, 4, 2, 1, 3]))
        2
    """
    # An image decoded as number s and shown as number r waits for at least s - r others. The
    # image for which this is largest waits for exactly that many.
    ahead = np.argsort(pts, kind="stable") - np.arange(len(pts))
    return min(int(ahead.max(initial=0)), _MAX_REORDER)
