"""The columns that every frame of a LeRobot dataset has: they count rows, frames, episodes, tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.schema import Feature

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

EPISODE_NUMBER = "episode_index"
TASK_NUMBER = "task_index"

COUNTERS: dict[str, Feature] = {
    "timestamp": Feature("float32", (1,)),
    "frame_index": Feature("int64", (1,)),
    EPISODE_NUMBER: Feature("int64", (1,)),
    "index": Feature("int64", (1,)),
    TASK_NUMBER: Feature("int64", (1,)),
}
"""By name, in the order in which LeRobot writes them."""
INDICES = [name for name in COUNTERS if name.endswith("index")]
"""Nothing is normalized by their statistics, and the edits of some tools leave them behind."""


def counter_columns(
    length: int, *, episode: int, start: int, tasks: ArrayLike, fps: float
) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
    """Return the counters of one episode, each ``(T,)``.

    Args:
        length: Frames of the episode.
        episode: Its number.
        start: Row of its first frame.
        tasks: The number of its task, or one for each frame.
        fps: Frames per second.
    """
    frames = np.arange(length)
    columns = {
        "timestamp": frames / fps,
        "frame_index": frames,
        EPISODE_NUMBER: np.full(length, episode),
        "index": start + frames,
        TASK_NUMBER: np.full(length, tasks, np.int64),
    }
    return {name: columns[name] for name in COUNTERS}
