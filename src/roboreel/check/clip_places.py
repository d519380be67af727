"""Where the clips of a video file lie among its images, and what does not fit. Pure arithmetic.

In a file without fault, clips follow one another: each starts at the image after the last one of the
clip before, and the last one ends with the file. What is not so is a gap, counted in images: above 0
if images are left over, below 0 if a clip has too few. A gap and its opposite a few clips later mean
that the clips in between start at the wrong image; that is how an offset of a single frame is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from roboreel.video.packet_table import PacketTable

    Timestamps = Callable[[int], NDArray[np.float64] | None]


@dataclass(frozen=True, slots=True, eq=False)
class FileClips:
    """What the metadata says of the clips of one file, in the order of their starts."""

    position: NDArray[np.int64]
    """Position of each episode in the episode table, ``(K,)``."""
    start_s: NDArray[np.float64]
    stop_s: NDArray[np.float64]
    """NaN or infinite where it is not known."""
    length: NDArray[np.int64]
    """Frames of each episode, ``(K,)``."""
    fps: float

    @property
    def num_frames(self) -> int:
        """Frames of all episodes together."""
        return int(self.length.sum())


@dataclass(frozen=True, slots=True, eq=False)
class PlacedClips:
    """Where clips lie among the images of their file."""

    clips: FileClips
    first: NDArray[np.int64]
    """The image nearest to each clip's start, ``(K,)``; behind the last, the one there would be."""
    off_s: NDArray[np.float64]
    """How much later than that image the clip starts, ``(K,)``."""
    num_images: int
    origin_s: float
    """What the times of the clips count from: 0, or the time of the first image."""

    @property
    def gaps(self) -> NDArray[np.int64]:
        """Images before each clip that no clip has, and after the last one, ``(K + 1,)``."""
        stops = self.first + self.clips.length
        starts = np.append(self.first, self.num_images)
        return starts - np.append(np.zeros(1, np.int64), stops)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Clips and images that do not fit."""

    kind: Literal["shifted", "overlapping", "missing", "unused"]
    start: int
    """The first clip that is affected, in the order of the file; for unused images, the clip that
    they come before."""
    stop: int
    """Right after the last clip that is affected."""
    images: int
    """How many; for shifted clips, how many too late."""


def place_clips(clips: FileClips, table: PacketTable) -> PlacedClips:
    """Return where clips lie in a video with at least one image.

    If the first image is not at 0, times may count from 0 or from that image: what fits better is
    taken.
    """
    rate = 1 / float(table.time_base)
    origin_s = float(table.ticks[0]) / rate
    absolute = _place(clips, table.ticks, rate, 0.0)
    if abs(origin_s) < 0.5 / clips.fps:
        return absolute
    relative = _place(clips, table.ticks, rate, origin_s)
    return relative if _badness(relative) < _badness(absolute) else absolute


def _place(clips: FileClips, ticks: NDArray[np.int64], rate: float, origin_s: float) -> PlacedClips:
    wanted = (clips.start_s + origin_s) * rate
    after = np.minimum(ticks.searchsorted(wanted), len(ticks) - 1)
    before = np.maximum(after - 1, 0)
    first = np.where(wanted - ticks[before] <= ticks[after] - wanted, before, after)
    off = wanted - ticks[first]
    step = rate / clips.fps
    behind = np.maximum(np.rint((wanted - ticks[-1]) / step), 0).astype(np.int64)
    off -= behind * step
    return PlacedClips(clips, (first + behind).astype(np.int64), off / rate, len(ticks), origin_s)


def _badness(placed: PlacedClips) -> float:
    return float(np.abs(placed.gaps).sum() + (np.abs(placed.off_s) * placed.clips.fps).sum())


def find_misfits(placed: PlacedClips) -> list[Misfit]:
    """Return what does not fit, in the order of the file.

    Args:
        placed: The clips of a file whose frame rate is that of the dataset.
    """
    gaps = placed.gaps
    places = np.flatnonzero(gaps).tolist()
    found: list[Misfit] = []
    while places:
        place = places.pop(0)
        images, overlap = int(gaps[place]), place
        if places and gaps[places[0]] == -images and not _are_chained(placed, place, places[0]):
            stop = places.pop(0)
            found.append(Misfit("shifted", place, stop, images))
            overlap = place if images < 0 else stop
        elif images > 0:
            found.append(Misfit("unused", place, place, images))
        elif not _claims_overlap(placed, place):
            found += _missing(placed, place - 1, -images)
        if gaps[overlap] < 0 and _claims_overlap(placed, overlap):
            found.append(Misfit("overlapping", overlap - 1, overlap + 1, abs(images)))
    return found


def _missing(placed: PlacedClips, clip: int, images: int) -> list[Misfit]:
    """Return which clips lack images that are missing behind a clip: that one, and those before."""
    found: list[Misfit] = []
    while images > 0 and clip >= 0:
        lost = min(images, int(placed.clips.length[clip]))
        found.insert(0, Misfit("missing", clip, clip + 1, lost))
        images, clip = images - lost, clip - 1
    return found


def _are_chained(placed: PlacedClips, start: int, stop: int) -> bool:
    """Whether the clips around two gaps end where the next ones start, by their own times.

    Then times were taken from the video, and it is images that are left over or missing.
    """
    count = len(placed.first)
    return start > 0 and all(
        abs(placed.clips.stop_s[at - 1] - placed.clips.start_s[at]) < 0.5 / placed.clips.fps
        for at in (start, stop)
        if at < count
    )


def _claims_overlap(placed: PlacedClips, at: int) -> bool:
    """Whether the clip before a place ends after the next one starts, by their own times."""
    if not 0 < at < len(placed.first):
        return False
    overlap_s = placed.clips.stop_s[at - 1] - placed.clips.start_s[at]
    return bool(np.isfinite(overlap_s) and overlap_s >= 0.5 / placed.clips.fps)


def mended_places(placed: PlacedClips) -> NDArray[np.int64] | None:
    """Return the image that each clip should start at, ``(K,)``; None if that cannot be told.

    If there is an image for each frame, the clips follow one another. Otherwise only those move that
    take the images of a neighbour and leave as many of their own.
    """
    length = placed.clips.length
    if placed.num_images == placed.clips.num_frames:
        return np.cumsum(length) - length
    if (np.abs(placed.off_s) >= 0.5 / placed.clips.fps).any():
        return None
    first = placed.first.copy()
    for misfit in find_misfits(placed):
        if misfit.kind == "shifted":
            first[misfit.start : misfit.stop] -= misfit.images
    bounds = np.append(first, placed.num_images)
    fits = len(first) > 0 and first[0] >= 0 and (first + length <= bounds[1:]).all()
    return first if fits else None


def video_fps(table: PacketTable) -> float | None:
    """Return the rate of a video's images; None for a single image.

    Neither pauses count, nor images that no clip shows and that therefore have hardly any time.
    """
    steps = np.diff(table.ticks)
    steps = steps[steps > 0]
    if not len(steps):
        return None
    middle = np.median(steps)
    usual = steps[(steps > middle / 2) & (steps < 1.5 * middle)]
    step = (usual if len(usual) else steps).mean()
    return float(1 / (step * float(table.time_base)))


# The times of clips and of their images, beside those that the metadata says.


def wrong_ends(placed: PlacedClips, table: PacketTable) -> list[int]:
    """Return the clips whose stored end is far from where they end.

    They end at ``start + length / fps``; one with a pause in it, a frame after its last image.
    """
    clips = placed.clips
    last = np.minimum(placed.first + clips.length, placed.num_images) - 1
    by_image = table.ticks[last] * float(table.time_base) + 1 / clips.fps - placed.origin_s
    by_count = clips.start_s + clips.length / clips.fps
    away = np.minimum(np.abs(clips.stop_s - by_count), np.abs(clips.stop_s - by_image))
    return np.flatnonzero(away >= 0.5 / clips.fps).tolist()


def far_images(
    placed: PlacedClips, table: PacketTable, among: Iterable[int], timestamps: Timestamps
) -> dict[int, float]:
    """Return by how many seconds images are away from their frames, where it is half a frame or more.

    Args:
        placed: The clips of a file.
        table: Its packets.
        among: The clips to look at.
        timestamps: Returns the stored timestamps of a clip's frames, in seconds. It is asked only
            where images are not at ``frame_index / fps``: if timestamps have the same pauses as the
            video, all is well.
    """
    fps, tick_s = placed.clips.fps, float(table.time_base)
    if np.abs(np.diff(table.ticks) * tick_s - 1 / fps).max(initial=0) <= tick_s:
        return {}
    found: dict[int, float] = {}
    for clip in among:
        first, length = int(placed.first[clip]), int(placed.clips.length[clip])
        shown = table.ticks[first : first + length]
        shown_s: NDArray[np.float64] = (shown - shown[:1]) * np.float64(tick_s)
        away_s = _furthest(shown_s, np.arange(len(shown)) / fps)
        if away_s > 0.5 / fps:
            stored = timestamps(clip)
            if stored is not None and len(stored) == len(shown_s):
                away_s = min(away_s, _furthest(shown_s, stored - stored[:1]))
        if away_s > 0.5 / fps:
            found[clip] = away_s
    return found


def _furthest(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    return float(np.abs(left - right).max(initial=0.0))
