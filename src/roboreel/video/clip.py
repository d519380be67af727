"""Frames of an episode → packets of its video file → runs to decode. Pure: no file is opened here.

Which image belongs to a frame is decided once per clip, never by comparing seconds:

1. The clip starts at the image nearest to its start time, which must be less than half a frame
   away. It ends before the image nearest to its stop time: that one belongs to the next episode.
   The exception is a camera that is slower than declared: if the stop is merely
   ``start + length / fps``, the clip is the last of its file and no image is missing, images after
   the stop belong to the clip too.
2. If the clip has exactly as many images as the episode has frames, frame ``i`` is image ``i`` of
   the clip, however the camera's clock drifted.
3. Otherwise images were lost or added, and counting would shift all later ones. Then the clock
   decides: frame ``i`` is the image nearest to ``start + i / fps``, inside the clip and at most half
   a frame away. A frame without such an image is missing; it never gets its neighbour's.

If a file's first image is not at 0, clips may count from 0 or from that image. Whichever way the
whole clip fits is taken; if it fits both ways, the clip is refused.
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
    """Consecutive packets to decode, and those whose images are wanted."""

    start: int
    """A keyframe."""
    stop: int
    """Right after the last wanted packet."""
    wanted: tuple[int, ...]
    """Packet numbers, ascending."""


def images_of(
    frames: NDArray[np.int64], clip: Clip, ticks: NDArray[np.int64], time_base: Fraction
) -> NDArray[np.int64]:
    """Return which image of a file belongs to each frame of an episode.

    Args:
        frames: Frame numbers in the episode, ``(N,)``, in any order.
        clip: Where the episode lies in the file.
        ticks: Tick of each image of the file, ``(M,)``, ascending.
        time_base: Seconds per tick.

    Returns:
        Positions in ``ticks``, ``(N,)``.

    Raises:
        MissingImageError: The file has no image for a frame. The message says what the file has;
            the caller adds which episode and camera.
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
        raise MissingImageError("The video has no images.")
    frame_ticks = rate / clip.fps
    absolute = _span(clip, ticks, rate, origin=0.0)
    origin = float(ticks[0])
    if abs(origin) < frame_ticks / 2:
        if absolute is None:
            raise MissingImageError(_describe_no_start(clip, ticks, rate))
        return _Located(*absolute, frame_ticks)
    # The file's clock does not start at 0: see the module's docstring.
    relative = _span(clip, ticks, rate, origin=origin)
    fitting = {span for span in (absolute, relative) if span and span[1] - span[0] >= clip.length}
    if len(fitting) != 1:
        problem = "is ambiguous" if fitting else "leaves too few images either way"
        raise MissingImageError(
            f"The video's first image is at {origin / rate:.3f} s instead of 0, and the episode's "
            f"start at {clip.start_s:.3f} s, which may count from either, {problem}."
        )
    return _Located(*fitting.pop(), frame_ticks)


def _span(
    clip: Clip, ticks: NDArray[np.int64], rate: float, *, origin: float
) -> tuple[int, int] | None:
    """Return the images of a clip that counts from a tick; None if there is none at its start."""
    half = rate / clip.fps / 2
    wanted = origin + clip.start_s * rate
    first = int(ticks.searchsorted(wanted))
    if first == len(ticks) or (first and wanted - ticks[first - 1] <= ticks[first] - wanted):
        first -= 1
    if abs(float(ticks[first]) - wanted) >= half:
        return None
    # From half a frame before the stop on, images belong to the next episode.
    stop = int(ticks.searchsorted(origin + clip.stop_s * rate - half))
    if len(ticks) - first == clip.length and stop < len(ticks):
        # There is one image per frame up to the end of the file. If the stop was only calculated
        # from the number of frames, a slow camera's last images lie beyond it.
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
            f"No image for frame {int(frames[missing].min())}: the clip has {count} images, "
            "none of them at this frame's time."
        )
    return images


def _nearest(ticks: NDArray[np.int64], wanted: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the position of the tick nearest to each moment; the earlier one if tied."""
    after = np.minimum(ticks.searchsorted(wanted), len(ticks) - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(wanted - ticks[before] <= ticks[after] - wanted, before, after)
    return nearest.astype(np.int64)


def _describe_no_start(clip: Clip, ticks: NDArray[np.int64], rate: float) -> str:
    last_s = float(ticks[-1]) / rate
    return (
        f"The episode starts at {clip.start_s:.3f} s, where the video has no image: it has "
        f"{len(ticks)} images, from {float(ticks[0]) / rate:.3f} s to {last_s:.3f} s."
    )


def plan_runs(packets: NDArray[np.int64], start: NDArray[np.int32]) -> list[Run]:
    """Return the runs that decode a set of packets, one for each keyframe to start at.

    Args:
        packets: Wanted packets, in any order, repeats allowed.
        start: The keyframe at which decoding of each packet of the file starts.

    Returns:
        Runs with ascending starts.
    """
    wanted = sorted(set(packets.tolist()))
    members: defaultdict[int, list[int]] = defaultdict(list)
    for packet, keyframe in zip(wanted, start[wanted].tolist(), strict=True):
        members[keyframe].append(packet)
    # Sorted, since leading images start at an earlier keyframe than packets decoded before them.
    return [Run(keyframe, of[-1] + 1, tuple(of)) for keyframe, of in sorted(members.items())]


def split_runs(runs: list[Run], target: int) -> list[list[Run]]:
    """Return the runs of one file in parts that can be decoded in parallel.

    Adjacent groups in a part are joined into a single run, which is decoded without a flush.

    Args:
        runs: Runs with ascending starts, as `plan_runs` returns them.
        target: A part is full once it has this many packets to decode.

    Returns:
        The parts, each with ascending starts.
    """
    parts: list[list[Run]] = []
    chain: list[Run] = []  # Groups to join.
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
