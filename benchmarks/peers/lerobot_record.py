"""What LeRobot 0.4.4 does when it records; runs in the peers' environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.footage import CAMERAS, WIDTH, count_images, record_episodes
from benchmarks.peers.lerobot import declare_missing_operator

if TYPE_CHECKING:
    from benchmarks.meter import Meter

CONTENDER = "LeRobot 0.4.4"
STREAMING = "LeRobot 0.4.4 streaming"

# As many as its own recording script starts.
_WRITERS_PER_CAMERA = 4


def record(
    meter: Meter,
    root: str,
    episodes: int,
    frames: int,
    fps: int,
    size: list[int],
    streaming: bool,
) -> None:
    """Record into a new dataset, or into the one that is there."""
    declare_missing_operator()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    if Path(root).exists():
        dataset = LeRobotDataset("benchmark/record", root=root, streaming_encoding=streaming)
        if not streaming:
            dataset.start_image_writer(0, _WRITERS_PER_CAMERA * len(CAMERAS))
    else:
        vector = {"dtype": "float32", "shape": (WIDTH,), "names": None}
        camera = {"dtype": "video", "shape": (*size, 3), "names": ["height", "width", "channels"]}
        dataset = LeRobotDataset.create(
            "benchmark/record",
            fps=fps,
            root=root,
            features={
                "observation.state": vector,
                "action": vector,
                **dict.fromkeys(CAMERAS, camera),
            },
            image_writer_threads=0 if streaming else _WRITERS_PER_CAMERA * len(CAMERAS),
            streaming_encoding=streaming,
        )
    before = dataset.meta.total_frames
    record_episodes(
        meter,
        lambda frame: dataset.add_frame({**frame, "task": "pick the red cube"}),
        dataset.save_episode,
        episodes=episodes,
        frames=frames,
        fps=fps,
        size=(size[0], size[1]),
    )
    recorded = dataset.meta.total_frames - before
    dataset.finalize()
    images = count_images(Path(root))
    meter.note(frames=recorded, dropped=recorded * len(CAMERAS) - images)
