"""The times of clips and of their images, beside those that the metadata says. Pure arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from roboreel.check.clip_places import PlacedClips
    from roboreel.video.packet_table import PacketTable

    Timestamps = Callable[[int], NDArray[np.float64] | None]


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
