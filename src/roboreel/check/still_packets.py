"""Stretches of a video whose packets say that nothing changes, and whether the robot moves then.

An encoder spends next to nothing on an image that equals the one before, and encodes equal images to
equal keyframes. Both are also true of a scene in which nothing moves, so this is never more than a
hint: what counts is whether the camera usually sees movement, and whether the robot moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import DatasetError
from roboreel.findings import finding
from roboreel.format.counters import COUNTERS
from roboreel.format.statistics import read_stats
from roboreel.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.check.clip_places import PlacedClips
    from roboreel.check.context import Context
    from roboreel.findings import Finding
    from roboreel.frames.frame_reader import FrameReader
    from roboreel.schema import Manifest
    from roboreel.video.packet_table import PacketTable

_SHORTEST_S, _SHORTEST_IMAGES = 0.5, 10
_LONG_S = 2.0
# What all codecs spend at most on an image that copies the one before: a header, and a share of
# each block of 16x16 pixels.
_TINY_BYTES, _TINY_PER_BLOCK = 24, 1 / 8
# The camera's usual packets, keyframes apart, must be so many times larger.
_LIVE = 4
# So many keyframes of equal size in a row are equal.
_EQUAL_KEYFRAMES = 4
_SIMILAR = 0.1
_BIN_BYTES, _BINS = 8, 2048


@dataclass(frozen=True, slots=True)
class Stretch:
    """Frames of an episode in which packets are still."""

    file: str
    position: int
    """The episode's position."""
    start: int
    stop: int
    packet_bytes: float
    """Mean size of its packets, keyframes apart."""


class StillPackets:
    """Gathers still stretches of a camera's videos, and judges them when all are known."""

    def __init__(self, manifest: Manifest, camera: str) -> None:
        self._manifest = manifest
        self._camera = camera
        self._least = shortest_still(manifest.fps)
        self._sizes = np.zeros(_BINS, np.int64)
        self._similar: list[Stretch] = []
        self._equal: list[Stretch] = []

    def add(self, file: str, placed: PlacedClips, table: PacketTable) -> None:
        """Add a video.

        Args:
            file: Its path below the dataset's folder.
            placed: Where its clips lie.
            table: Its packets.
        """
        size, keyframe = table.size[table.shown], table.keyframe[table.shown]
        height, width = table.coding.image_size
        tiny_bytes = _TINY_BYTES + _TINY_PER_BLOCK * height * width / 256
        bins = np.minimum(size[~keyframe] // _BIN_BYTES, _BINS - 1)
        self._sizes += np.bincount(bins, minlength=_BINS)
        change = _keyframe_changes(size, keyframe)
        similar = np.where(keyframe, change <= np.maximum(_SIMILAR * size, 8), size <= tiny_bytes)
        equal = np.where(keyframe, change == 0, size <= tiny_bytes)
        clips = placed.clips
        for clip, start in enumerate(placed.first.tolist()):
            span = slice(start, start + int(clips.length[clip]))
            sizes, keys = size[span], keyframe[span]
            for found, flags in ((self._similar, similar[span]), (self._equal, equal[span])):
                for first, stop in self._runs(flags):
                    inner = keys[first + 1 : stop]
                    if found is self._equal and inner.sum() < _EQUAL_KEYFRAMES - 1:
                        continue
                    others = sizes[first + 1 : stop][~inner]
                    mean = float(others.mean()) if len(others) else 0.0
                    position = int(clips.position[clip])
                    found.append(Stretch(file, position, first, stop, mean))

    def state(self) -> dict[str, Any]:
        """Return what was gathered, for `merge` in another process."""
        return {"sizes": self._sizes, "similar": self._similar, "equal": self._equal}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add what another one gathered of the videos that follow."""
        self._sizes = self._sizes + state["sizes"]
        self._similar += state["similar"]
        self._equal += state["equal"]

    def _runs(self, still: NDArray[np.bool_]) -> list[tuple[int, int]]:
        """Return runs of still images, with the one that the first of them equals."""
        if len(still):
            still[0] = False
        return [(start - 1, stop) for start, stop in runs_of(still, self._least - 1)]

    def findings(self, context: Context) -> Iterator[Finding]:
        """Yield the stretches in which the camera seems to be frozen while the robot moves."""
        usual, fps, lengths = self._usual_bytes, self._manifest.fps, self._manifest.episodes.length
        live = [
            one
            for one in self._similar
            if usual >= _LIVE * one.packet_bytes > 0
            and is_long(one.stop - one.start, int(lengths[one.position]), fps)
        ]
        stretches = _longest([*live, *self._equal])
        if not stretches:
            return
        movement = Movement(context.frames)
        starts = self._manifest.episodes.start
        moving = [
            one
            for one in stretches
            if context.wanted[one.position]
            and movement.moves(
                int(starts[one.position]) + one.start, int(starts[one.position]) + one.stop
            )
        ]
        if is_common(len(moving), int(context.wanted.sum())):
            what = (
                f"By its packets, {self._camera!r} often shows the same image for long: in "
                f"{len(moving):,} of {int(context.wanted.sum()):,} episodes. Check with --deep."
            )
            yield finding("RR409", what, feature=self._camera)
            return
        for one in moving:
            yield context.episode_finding(
                "RR409",
                "By its packets, the camera shows the same image for "
                f"{counted(one.stop - one.start, 'frame')} of episode "
                f"{context.number(one.position)} while numbers change. Check with --deep.",
                one.position,
                (one.start, one.stop),
                file=one.file,
                feature=self._camera,
            )

    @property
    def _usual_bytes(self) -> float:
        """The median size of the camera's packets, keyframes apart; 0 if there are only those."""
        total = int(self._sizes.sum())
        if not total:
            return 0.0
        return float(np.searchsorted(np.cumsum(self._sizes), total / 2)) * _BIN_BYTES


def _longest(stretches: list[Stretch]) -> list[Stretch]:
    """Return the longest stretch of each episode."""
    longest: dict[int, Stretch] = {}
    for one in stretches:
        known = longest.get(one.position)
        if known is None or one.stop - one.start > known.stop - known.start:
            longest[one.position] = one
    return list(longest.values())


def shortest_still(fps: float) -> int:
    """Return how many equal images in a row are worth telling."""
    return max(_SHORTEST_IMAGES, round(_SHORTEST_S * fps))


def is_long(count: int, length: int, fps: float) -> bool:
    """Return whether a run is long enough for weak evidence: 2 s, or half of the episode."""
    return count >= min(_LONG_S * fps, length / 2)


def is_common(count: int, total: int) -> bool:
    """Return whether something is so common among episodes that it is better told once."""
    return count > 2 and 4 * count > total


def _keyframe_changes(size: NDArray[np.int32], keyframe: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return by how many bytes each keyframe differs from the one before it, ``(N,)``."""
    change = np.zeros(len(size), np.int64)
    places = np.flatnonzero(keyframe)
    sizes = size[places].astype(np.int64)
    change[places] = np.abs(np.diff(sizes, prepend=sizes[:1]))
    return change


# Whether the robot moves while a camera shows the same image.

# A joint moves if it crosses this part of its whole range.
_MOVES = 0.05


class Movement:
    """Looks at the numbers of a dataset, stretch by stretch."""

    def __init__(self, frames: FrameReader) -> None:
        self._frames = frames
        floats = [
            name
            for name, feature in frames.manifest.features.items()
            if feature.kind == "number" and feature.dtype.startswith("float")
        ]
        self._names = [name for name in floats if name not in COUNTERS]

    def moves(self, start: int, stop: int) -> bool | None:
        """Return whether anything moves in the rows ``[start, stop)`` of one episode.

        None if there are no numbers, or they cannot be read.
        """
        if not self._names or stop - start < 2:
            return None
        try:
            values = self._frames.columns.read_span(self._names, start, stop)
        except (DatasetError, OSError):
            return None
        return any(self._crosses(name, values[name]) for name in self._names)

    def _crosses(self, name: str, values: NDArray[np.float64]) -> bool:
        flat = np.nan_to_num(values.reshape(len(values), -1).astype(np.float64))
        crossed = flat.max(axis=0) - flat.min(axis=0)
        whole = self._ranges.get(name)
        if whole is None or whole.size != crossed.size:
            return bool((crossed > 0).any())
        return bool(((crossed > _MOVES * whole) & (crossed > 0)).any())

    @cached_property
    def _ranges(self) -> dict[str, NDArray[np.float64]]:
        try:
            stats = read_stats(self._frames.manifest)
        except (DatasetError, OSError):
            return {}
        return {name: np.nan_to_num(one.max - one.min).reshape(-1) for name, one in stats.items()}


def runs_of(flags: NDArray[np.bool_], least: int) -> list[tuple[int, int]]:
    """Return the spans in which at least this many flags in a row are set.

    Examples:
        >>> runs_of(np.array([True, True, False, True, True, True]), 3)
        [(3, 6)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    spans = edges.reshape(-1, 2)
    return [(int(a), int(b)) for a, b in spans[spans[:, 1] - spans[:, 0] >= least]]
