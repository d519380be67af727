"""The mapping: which feature comes from which stream, and how. Frozen and self-checking."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from roboreel.errors import SourceError
from roboreel.numbers import is_rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.importing.align import Method
    from roboreel.record.options import CameraKind

ClockChoice = Literal["auto", "header", "log"]
"""Which times of messages count; ``auto`` takes the header's where they ascend and are plausible."""

UNITS = {
    "deg": math.pi / 180,
    "mm": 1e-3,
    "cm": 1e-2,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "percent": 1e-2,
}
"""Units that a recording may count in, and what one of them is in radians, metres or seconds."""

_FLIPS = ("vertical", "horizontal", "both")
_METHODS = ("nearest", "previous", "linear")
_RULES = ("file", "gap", "times", "topic")


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """Where the values of a feature come from, and what is done to them.

    Raises:
        SourceError: A setting is not one of those that are known.
    """

    streams: tuple[str, ...]
    """One stream, or several of numbers, whose elements are put one after the other."""
    elements: tuple[str | int, ...] | None = None
    """Which elements of a value, by name or position, in this order; None for all."""
    unit: str | None = None
    """What the recording counts in: see `UNITS`. Numbers become radians, metres or seconds; for depth
    it is ``mm`` or ``m``, and nothing is converted."""
    shift: int = 0
    """How many frames later the value is taken: 1 makes an action of the next state. The last frames
    of an episode repeat its last value."""
    dtype: str | None = None
    """Another type of numbers."""
    flip: str | None = None
    """``vertical``, ``horizontal`` or ``both``, for images."""
    resize: tuple[int, int] | None = None
    """``(height, width)``, for images."""
    channels: str = "rgb"
    """``bgr`` if red and blue are swapped in the recording."""
    store: CameraKind | None = None
    """Whether images are stored as ``video`` or ``image``; None keeps what is encoded as it is."""
    align: Method | None = None
    """How rows find values; None as for all features."""
    max_gap_ns: int | None = None
    """How far a value may be from its row; None as for all features, -1 for any distance."""

    def __post_init__(self) -> None:
        if not self.streams or not all(self.streams):
            raise SourceError("A feature needs a stream: stream = '…'.")
        _check_one(self.unit, (None, "m", *UNITS), "unit")
        _check_one(self.flip, (None, *_FLIPS), "flip")
        _check_one(self.channels, ("rgb", "bgr"), "channels")
        _check_one(self.store, (None, "video", "image"), "store")
        _check_one(self.align, (None, *_METHODS), "align")
        if self.resize is not None and min(self.resize) < 1:
            raise SourceError(f"resize is {self.resize}: give height and width.")

    @property
    def changes_pixels(self) -> bool:
        """Whether images have to be decoded and changed."""
        return self.flip is not None or self.resize is not None or self.channels != "rgb"


@dataclass(frozen=True, slots=True)
class EpisodeRule:
    """Where episodes begin and end in a recording that is timed.

    Raises:
        SourceError: The rule is not known, or lacks what it goes by.
    """

    by: str = "file"
    """``file``: as the recording has them. ``gap``: where ``stream`` pauses. ``times``: as given.
    ``topic``: at messages of ``start`` and ``stop``, or while the values of ``active`` are true."""
    gap_ns: int | None = None
    stream: str | None = None
    """For ``gap``: the stream whose pauses count; None for all that are mapped."""
    times: tuple[tuple[float, float], ...] = ()
    """Seconds from the start of the recording."""
    start: str | None = None
    """Also the service events of a service, which ROS 2 records like messages."""
    stop: str | None = None
    active: str | None = None

    def __post_init__(self) -> None:
        _check_one(self.by, _RULES, "[episodes] by")
        if self.by == "gap" and not (self.gap_ns and self.gap_ns > 0):
            raise SourceError("[episodes] by = 'gap' needs gap = '2s', the shortest pause.")
        if self.by == "times" and not self.times:
            raise SourceError(
                "[episodes] by = 'times' needs times = [[start, stop], …] in seconds."
            )
        if any(not (math.isfinite(a) and math.isfinite(b) and 0 <= a < b) for a, b in self.times):
            raise SourceError(f"[episodes] times are {self.times}: each stops after it starts.")
        if self.by == "topic" and (self.start is None) == (self.active is None):
            raise SourceError(
                "[episodes] by = 'topic' needs start = '/topic' or active = '/topic'."
            )


@dataclass(frozen=True, slots=True)
class TaskRule:
    """What the robot is doing, in words."""

    text: str | None = None
    """For all episodes, or for those of which the recording does not say."""
    stream: str | None = None
    """A stream of texts, one for each step or message."""


@dataclass(frozen=True, slots=True)
class ImportMap:
    """How a recording becomes a dataset.

    Raises:
        SourceError: The rate, or how rows find values, is not possible.
    """

    features: Mapping[str, FeatureMap]
    fps: float | None = None
    """None to take the recording's own."""
    task: TaskRule = field(default_factory=TaskRule)
    episodes: EpisodeRule = field(default_factory=EpisodeRule)
    align: Method = "nearest"
    max_gap_ns: int | None = None
    """None: three times the usual distance of a stream's values, and at least 100 ms. -1 for any."""
    clock: ClockChoice = "auto"
    follow: str | None = None
    """A stream whose times are those of the rows, instead of an even grid."""
    drop_last: int = 0
    """How many frames at the end of each episode are left out."""

    def __post_init__(self) -> None:
        _check_one(self.align, _METHODS, "align")
        _check_one(self.clock, ("auto", "header", "log"), "clock")
        if self.fps is not None and not is_rate(self.fps):
            raise SourceError(f"fps is {self.fps}: give frames per second, from 1e-6 to 1e6.")
        if self.drop_last < 0:
            raise SourceError(f"drop_last is {self.drop_last}: give 0 or more.")
        if not self.features:
            raise SourceError("The mapping has no features: give at least one under [features].")


@dataclass(frozen=True, slots=True)
class Changes:
    """Settings that count for all features; None leaves what the mapping says."""

    fps: float | None = None
    task: str | None = None
    """For frames of which the recording does not say what the task is."""
    align: Method | None = None
    max_gap_ns: int | None = None
    """-1 for any distance."""
    clock: ClockChoice | None = None
    follow: str | None = None
    store: CameraKind | None = None
    """How all colour cameras are stored."""
    drop_last: int | None = None
    float32: bool = False
    """Whether numbers of 64 bits are stored in 32."""
    distro: str | None = None
    """The distribution of ROS that recorded it, for bags that do not define their messages."""


def _check_one(given: object, known: tuple[object, ...], name: str) -> None:
    if given not in known:
        listed = ", ".join(repr(one) for one in known if one is not None)
        raise SourceError(f"{name} is {given!r}: choose one of {listed}.")
