"""Frames of an episode → packets of its video file → runs to decode. Pure: no file is opened here.

Which image belongs to a frame is decided once per clip:

1. The clip starts at the image nearest to its start time, which must be less than half a frame
   away. It never reaches the image at which the next clip of the file starts, unless its own stop
   time is that of its frames and lies behind it: as in LeRobot, both clips then show these images.
2. It ends before the image nearest to its stop time. A stop that leaves less time than the frames
   take is not believed, since writers store the time of the last image there, or 0, or nothing:
   then the clip lasts ``length / fps``.
3. If the clip has exactly as many images as the episode has frames, frame ``i`` is image ``i`` of
   the clip, however the camera's clock drifted. The same holds if the images up to the next clip,
   or to the end of the file, are as many as the frames, and the file as a whole has an image for
   each frame, or no image is missing in between.
4. Otherwise images were lost or added, and counting would shift all later ones. Then the clock
   decides: a frame is the image nearest to its time, inside the clip and at most half a frame away.
   A frame without such an image is missing; it never gets its neighbour's.
5. If the video has another rate than the dataset, its times mean nothing unless they add up. Images
   are counted if the file has as many as its clips have frames. Its clock is used if the file lasts
   as long as its clips. Otherwise the clip is refused.

If a file's first image is not at 0, clips may count from 0 or from that image. Whichever way the
whole clip fits is taken; if it fits both ways, the clip is refused.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import MissingImageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    TimesOf = Callable[[NDArray[np.int64]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Clip:
    """The part of one video file that belongs to one episode."""

    start_s: float
    """Time of the first image in the file."""
    stop_s: float
    """Time right after the last image, as stored; ``math.inf`` for the rest of the file."""
    length: int
    """Frames of the episode."""
    fps: float
    limit_s: float = math.inf
    """Time at which the next clip of the file starts."""
    before: int = 0
    """Frames of all clips before this one in the file."""
    total: int | None = None
    """Frames of all clips of the file; None if they are not known."""


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
    frames: NDArray[np.int64],
    clip: Clip,
    ticks: NDArray[np.int64],
    time_base: Fraction,
    times_of: TimesOf | None = None,
    step: float | None = None,
) -> NDArray[np.int64]:
    """Return which image of a file belongs to each frame of an episode.

    Args:
        frames: Frame numbers in the episode, ``(N,)``, in any order.
        clip: Where the episode lies in the file.
        ticks: Tick of each image of the file, ``(M,)``, ascending.
        time_base: Seconds per tick.
        times_of: Returns when frames are, in seconds from the start of the episode; asked only if
            the clock decides. By default frames are ``1 / fps`` apart.
        step: `usual_step` of ``ticks``, if it is known.

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
    rate = 1 / float(time_base)
    step = usual_step(ticks) if step is None else step
    located = _locate(clip, ticks, rate, step)
    if located.stop - located.start == clip.length:
        return located.start + frames
    times_s = frames / clip.fps if times_of is None else times_of(frames)
    return _images_by_clock(frames, times_s * rate, located, ticks, clip, rate, step)


def usual_step(ticks: NDArray[np.int64]) -> float:
    """Return the median of how far images are apart, in ticks; -1 if there are fewer than two."""
    if len(ticks) < 2:
        return -1.0
    # `np.median` takes ten times as long for a few values, and every file of an episode has a few.
    gaps = ticks[1:] - ticks[:-1]
    low, high = (len(gaps) - 1) // 2, len(gaps) // 2
    gaps.partition((low, high))
    return (float(gaps[low]) + float(gaps[high])) / 2


@dataclass(frozen=True, slots=True)
class _Located:
    """The images of a clip, as a span of all images of the file."""

    start: int
    stop: int


def _locate(clip: Clip, ticks: NDArray[np.int64], rate: float, step: float) -> _Located:
    if len(ticks) == 0:
        raise MissingImageError("The video has no images.")
    if math.isnan(clip.start_s):
        raise MissingImageError("The metadata does not say where in the video the episode starts.")
    if clip.total is not None and _differs_in_rate(clip, step, rate):
        return _locate_at_another_rate(clip, ticks, rate, step)
    return _locate_by_time(clip, ticks, rate)


def _locate_by_time(clip: Clip, ticks: NDArray[np.int64], rate: float) -> _Located:
    absolute = _span(clip, ticks, rate, origin=0.0)
    origin = float(ticks[0])
    if abs(origin) < rate / clip.fps / 2:
        if absolute is None:
            raise MissingImageError(_describe_no_start(clip, ticks, rate))
        return _Located(*absolute)
    # The file's clock does not start at 0: see the module's docstring.
    relative = _span(clip, ticks, rate, origin=origin)
    fitting = {span for span in (absolute, relative) if span and span[1] - span[0] >= clip.length}
    if len(fitting) != 1:
        problem = "is ambiguous" if fitting else "leaves too few images either way"
        raise MissingImageError(
            f"The video's first image is at {origin / rate:.3f} s instead of 0, and the episode's "
            f"start at {clip.start_s:.3f} s, which may count from either, {problem}."
        )
    return _Located(*fitting.pop())


def _differs_in_rate(clip: Clip, step: float, rate: float) -> bool:
    """Whether images follow one another much faster or slower than frames do."""
    return not 0.8 < _frames_per_image(clip, step, rate) < 1.25


def _frames_per_image(clip: Clip, step: float, rate: float) -> float:
    return step * clip.fps / rate if step >= 0 else 1.0


def _locate_at_another_rate(
    clip: Clip, ticks: NDArray[np.int64], rate: float, step: float
) -> _Located:
    assert clip.total is not None
    if clip.total == len(ticks):
        return _Located(clip.before, clip.before + clip.length)
    each = _frames_per_image(clip, step, rate)
    if abs(len(ticks) * each - clip.total) <= max(2.0, each):
        return _locate_by_time(clip, ticks, rate)
    raise MissingImageError(
        f"The video has {clip.fps / each:.6g} images per second, and info.json says {clip.fps:g} "
        f"frames per second. It has {len(ticks)} images for {clip.total} frames, so neither "
        "counting nor its clock tells which image belongs to a frame."
    )


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
    lasts_s = clip.length / clip.fps
    # Both clips claim the images where they overlap.
    claimed_s = clip.stop_s if abs(clip.stop_s - clip.start_s - lasts_s) * rate < half else 0.0
    limit = _place(ticks, origin + max(clip.limit_s, claimed_s) * rate - half)
    # From half a frame before a moment on, images belong to what starts there.
    stored = min(_place(ticks, origin + clip.stop_s * rate - half), limit)
    if clip.stop_s > clip.start_s and stored - first == clip.length:
        return first, stored
    if limit - first == clip.length and _has_all(clip, ticks, first, limit, half):
        return first, limit
    if (clip.stop_s - clip.start_s - lasts_s) * rate > -half:
        return first, max(stored, first)
    return first, max(min(_place(ticks, wanted + lasts_s * rate - half), limit), first)


def _place(ticks: NDArray[np.int64], moment: float) -> int:
    """Return the first image at a moment or after it; the end if the moment is not known."""
    return int(ticks.searchsorted(moment))


def _has_all(clip: Clip, ticks: NDArray[np.int64], first: int, limit: int, half: float) -> bool:
    """Whether no image is missing up to the next clip: there is one per frame of the file, or no gap.

    Otherwise as many may have been lost inside the clip as are left over behind it.
    """
    if clip.total == len(ticks):
        return True
    return bool(np.diff(ticks[first:limit]).max(initial=0) < 3 * half)


def _images_by_clock(
    frames: NDArray[np.int64],
    moments: NDArray[np.float64],
    located: _Located,
    ticks: NDArray[np.int64],
    clip: Clip,
    rate: float,
    step: float,
) -> NDArray[np.int64]:
    wanted = ticks[located.start] + moments
    images = _nearest(ticks, wanted)
    missing = ~(np.abs(ticks[images] - wanted) <= rate / clip.fps / 2)
    missing |= (images < located.start) | (images >= located.stop)
    if missing.any():
        count = located.stop - located.start
        raise MissingImageError(
            f"No image for frame {int(frames[missing].min())}: the clip has {count} images, "
            f"none of them at this frame's time{_describe_rates(clip, step, rate)}."
        )
    return images


def _describe_rates(clip: Clip, step: float, rate: float) -> str:
    if not _differs_in_rate(clip, step, rate):
        return ""
    images = clip.fps / _frames_per_image(clip, step, rate)
    return f"; the video has {images:.6g} images per second, info.json says {clip.fps:g}"


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
