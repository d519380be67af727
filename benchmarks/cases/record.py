"""roboreel records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.footage import CAMERAS, WIDTH, count_images, record_episodes

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def record(meter: Meter, root: str, episodes: int, frames: int, fps: int, size: list[int]) -> None:
    """Record into a new dataset, or into the one that is there."""
    from roboreel import Feature, create_dataset, resume_dataset

    vector, camera = Feature("float32", (WIDTH,)), Feature("video", (*size, 3))
    features = {"observation.state": vector, "action": vector, **dict.fromkeys(CAMERAS, camera)}
    recorder = (
        resume_dataset(root, compact_on_close=False)
        if Path(root).exists()
        else create_dataset(root, fps=fps, features=features, compact_on_close=False)
    )
    with recorder:
        before = recorder.num_frames
        record_episodes(
            meter,
            lambda frame: recorder.add_frame(frame, task="pick the red cube"),
            recorder.save_episode,
            episodes=episodes,
            frames=frames,
            fps=fps,
            size=(size[0], size[1]),
        )
        recorded = recorder.num_frames - before
    images = count_images(Path(root))
    meter.note(frames=recorded, dropped=recorded * len(CAMERAS) - images)
