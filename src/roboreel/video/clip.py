"""Frames of an episode → packets of its video file → runs to decode. Pure: no file is opened here.

Which image belongs to a frame is decided once per clip, and never by comparing seconds:

1. The clip begins at the image nearest to its start, which must be less than half a frame away.
   It ends before the image nearest to its stop: that one is the next episode's. Only where the stop
   is a mere ``start + length / fps``, the file ends with the clip and no image was lost, images
   beyond the stop belong to it too: a camera slower than it says.
2. If the clip has exactly as many images as the episode has frames, frame ``i`` is image ``i`` of
   the clip, however the camera's clock wandered.
3. Otherwise images were lost or added, and counting would shift all that follow. Then the clock
   decides: frame ``i`` is the image nearest to ``start + i / fps``, inside the clip and at most half
   a frame away. A frame without one is missing; it never gets its neighbour's.

A file whose first image is not at 0 leaves open whether clips count from 0 or from that image.
It is read in the way in which the whole clip fits; where both ways fit, it is refused.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import MissingImageError

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

__all__ = ["Clip", "Run", "images_of", "plan_runs", "split_runs"]


@dataclass(frozen=True, slots=True)
class Clip:
    """The part of one video file that belongs to one episode."""

    start_s: float
    """Time of the first image in the file."""
    stop_s: float
    """Time right after the last image; ``math.inf`` for the rest of the file."""
    length: int
    """Frames of the episode."""
    fps: float


@dataclass(frozen=True, slots=True)
class Run:
    """Packets to feed to a decoder one after another, and those whose images are wanted."""

    start: int
    """A keyframe."""
    stop: int
    """Right after the last wanted packet, in decoding order."""
    wanted: tuple[int, ...]
    """Ascending, in decoding order."""


def images_of(
    frames: NDArray[np.int64], clip: Clip, ticks: NDArray[np.int64], time_base: Fraction
) -> NDArray[np.int64]:
    """Return which image of a file belongs to each frame of an episode.

    Args:
        frames: Frame numbers in the episode, ``(N,)``, in any order.
        clip: Where the episode lies in the file.
        ticks: The tick at which each image of the file is shown, ``(P,)``, ascending.
        time_base: Seconds per tick.

    Returns:
        Positions in ``ticks``, ``(N,)``.

    Raises:
        MissingImageError: The file has no image for a frame. The message says what the file has;
            the caller adds whose frame it is.
    """
    outside = [frame for frame in frames.tolist() if not 0 <= frame < clip.length]
    if outside:
        raise MissingImageError(
            f"Frame {outside[0]} does not exist: the episode has {clip.length} frames."
        )
    located = _locate(clip, ticks, 1 / float(time_base))
    if located.stop - located.start == clip.length:
        return located.start + frames
    return _images_by_clock(frames, located, ticks)


@dataclass(frozen=True, slots=True)
class _Located:
    """The images of a clip, as a span of all images of the file."""

    start: int
    stop: int
    frame_ticks: float
    """Ticks from one frame to the next."""


def _locate(clip: Clip, ticks: NDArray[np.int64], rate: float) -> _Located:
    if len(ticks) == 0:
        raise MissingImageError("The video shows no image.")
    frame_ticks = rate / clip.fps
    absolute = _span(clip, ticks, rate, origin=0.0)
    origin = float(ticks[0])
    if abs(origin) < frame_ticks / 2:
        if absolute is None:
            raise MissingImageError(_describe_no_start(clip, ticks, rate))
        return _Located(*absolute, frame_ticks)
    # The file's clock does not begin at 0: see the module's docstring.
    relative = _span(clip, ticks, rate, origin=origin)
    fitting = {span for span in (absolute, relative) if span and span[1] - span[0] >= clip.length}
    if len(fitting) != 1:
        problem = "and could mean either" if fitting else "and there are too few images for it"
        raise MissingImageError(
            f"The video's first image is at {origin / rate:.3f} s instead of 0, the episode starts "
            f"at {clip.start_s:.3f} s {problem}."
        )
    return _Located(*fitting.pop(), frame_ticks)


def _span(
    clip: Clip, ticks: NDArray[np.int64], rate: float, *, origin: float
) -> tuple[int, int] | None:
    """Return the images of a clip whose times count from a tick; None if none is at its start."""
    half = rate / clip.fps / 2
    wanted = origin + clip.start_s * rate
    first = int(ticks.searchsorted(wanted))
    if first == len(ticks) or (first and wanted - ticks[first - 1] <= ticks[first] - wanted):
        first -= 1
    if abs(float(ticks[first]) - wanted) >= half:
        return None
    # An image belongs to the next episode if it is nearer to this clip's stop than half a frame.
    stop = int(ticks.searchsorted(origin + clip.stop_s * rate - half))
    if len(ticks) - first == clip.length and stop < len(ticks):
        # One for each frame up to the end of the file: if the stop was only calculated from the
        # number of frames, a slow camera's last images lie beyond it.
        is_calculated = abs(clip.start_s + clip.length / clip.fps - clip.stop_s) * rate < half
        if is_calculated and np.diff(ticks[first:]).max(initial=0) < 3 * half:
            stop = len(ticks)
    return first, max(stop, first)


def _images_by_clock(
    frames: NDArray[np.int64], located: _Located, ticks: NDArray[np.int64]
) -> NDArray[np.int64]:
    wanted = ticks[located.start] + frames * located.frame_ticks
    images = _nearest(ticks, wanted)
    missing = np.abs(ticks[images] - wanted) > located.frame_ticks / 2
    missing |= (images < located.start) | (images >= located.stop)
    if missing.any():
        count = located.stop - located.start
        raise MissingImageError(
            f"No image for frame {int(frames[missing].min())}: the clip has {count} images, and "
            "none at this frame's time."
        )
    return images


def _nearest(ticks: NDArray[np.int64], wanted: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the position of the tick nearest to each moment; the earlier one of two."""
    after = np.minimum(ticks.searchsorted(wanted), len(ticks) - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(wanted - ticks[before] <= ticks[after] - wanted, before, after)
    return nearest.astype(np.int64)


def _describe_no_start(clip: Clip, ticks: NDArray[np.int64], rate: float) -> str:
    last_s = float(ticks[-1]) / rate
    return (
        f"The episode starts at {clip.start_s:.3f} s, where the video has no image: it has "
        f"{len(ticks)}, from {float(ticks[0]) / rate:.3f} s to {last_s:.3f} s."
    )


def plan_runs(packets: NDArray[np.int64], start: NDArray[np.int32]) -> list[Run]:
    """Return what to decode for a set of packets: one run for each keyframe to start at.

    Args:
        packets: Wanted packets, in any order, with or without repeats.
        start: The keyframe at which decoding of each packet of the file starts.

    Returns:
        Runs with ascending starts.
    """
    wanted = sorted(set(packets.tolist()))
    members: defaultdict[int, list[int]] = defaultdict(list)
    for packet, keyframe in zip(wanted, start[wanted].tolist(), strict=True):
        members[keyframe].append(packet)
    # Sorted, since leading images start earlier than some packets decoded before them.
    return [Run(keyframe, of[-1] + 1, tuple(of)) for keyframe, of in sorted(members.items())]


def split_runs(runs: list[Run], target: int) -> list[list[Run]]:
    """Share out the runs of one file into parts that can be decoded side by side.

    Neighbouring groups of one part become a single run, which is decoded without a pause.

    Args:
        runs: Runs with ascending starts, as `plan_runs` gives them.
        target: Packets to decode that make a part large enough.

    Returns:
        The parts, each with ascending starts.
    """
    parts: list[list[Run]] = []
    chain: list[Run] = []  # Groups that are decoded without a pause.
    cost, stop = target, -1
    for run in runs:
        full = cost >= target
        if chain and (full or run.start > stop):
            parts[-1].append(_joined(chain))
            chain = []
        if full:
            parts.append([])
            cost = 0
        chain.append(run)
        cost += run.stop - run.start
        stop = max(stop, run.stop)
    if chain:
        parts[-1].append(_joined(chain))
    return parts


def _joined(chain: list[Run]) -> Run:
    wanted = sorted(packet for run in chain for packet in run.wanted)
    return Run(chain[0].start, wanted[-1] + 1, tuple(wanted))
