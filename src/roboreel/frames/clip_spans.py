"""How the clips of a camera share its files: which one comes next, and how much lies before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.distinct import numbered
from roboreel.video.clip import Clip

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.schema import Manifest


@dataclass(frozen=True, slots=True, eq=False)
class ClipSpans:
    """The clips of one camera among their neighbours, by the position of the episode."""

    manifest: Manifest
    camera: str
    limit_s: NDArray[np.float64]
    """Where the next clip of the file starts, ``(E,)``; infinity behind the last."""
    before: NDArray[np.int64]
    """Frames of the clips before each one in its file, ``(E,)``."""
    total: NDArray[np.int64]
    """Frames of all clips of its file, ``(E,)``."""

    def clip(self, episode: int) -> Clip:
        """Return the clip of the episode at a position."""
        episodes = self.manifest.episodes
        clips = episodes.clips[self.camera]
        return Clip(
            start_s=float(clips.start_s[episode]),
            stop_s=float(clips.stop_s[episode]),
            length=int(episodes.length[episode]),
            fps=self.manifest.fps,
            limit_s=float(self.limit_s[episode]),
            before=int(self.before[episode]),
            total=int(self.total[episode]),
        )


def arrange_clips(manifest: Manifest, camera: str) -> ClipSpans:
    """Return the clips of a camera among their neighbours. Episodes may be in any order.

    Clips that start together show the same images; the next clip is the first that starts later.
    """
    episodes, clips = manifest.episodes, manifest.episodes.clips[camera]
    count = len(episodes)
    length = np.where(episodes.length > 0, episodes.length, 0)
    order = np.lexsort((episodes.start, clips.start_s, clips.file))
    # Empty episodes have no images: their starts bound nobody.
    order = order[length[order] > 0]
    file, start_s, its_length = clips.file[order], clips.start_s[order], length[order]
    last_of_file = np.append(file[1:] != file[:-1], True)[: len(order)]
    limit_s = np.full(count, np.inf)
    before, total = np.zeros(count, np.int64), np.zeros(count, np.int64)
    limit_s[order] = _next_start(start_s, last_of_file, manifest.fps)
    ends = np.cumsum(its_length)
    first_of_file = np.append(True, last_of_file[:-1])[: len(order)]
    first = np.maximum.accumulate(np.where(first_of_file, np.arange(len(order)), 0))
    begins = ends - its_length
    before[order] = begins - begins[first]
    _, group = numbered(file)
    total[order] = np.bincount(group, its_length).astype(np.int64)[group]
    return ClipSpans(manifest, camera, limit_s, before, total)


def _next_start(
    start_s: NDArray[np.float64], last_of_file: NDArray[np.bool_], fps: float
) -> NDArray[np.float64]:
    """Return the next later start in each clip's file; infinity if there is none."""
    limit_s = np.full(len(start_s), np.inf)
    for place in range(len(start_s) - 2, -1, -1):
        if not last_of_file[place]:
            # Half a frame apart or less is together; NaN is never later.
            is_later = start_s[place + 1] - start_s[place] > 0.5 / fps
            limit_s[place] = start_s[place + 1] if is_later else limit_s[place + 1]
    return limit_s
