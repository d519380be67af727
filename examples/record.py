"""Record two episodes of a simulated camera and arm, and look at what was written."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import roboreel as reel

FEATURES = {
    "observation.state": reel.Feature("float32", (2,), names=("shoulder", "elbow")),
    "action": reel.Feature("float32", (2,), names=("shoulder", "elbow")),
    "observation.images.front": reel.Feature("video", (64, 96, 3)),
}


def main() -> None:
    """Record, resume, and read a frame back."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("path", type=Path, help="a folder that does not exist yet")
    path = options.parse_args().path
    with reel.create_dataset(path, fps=30, features=FEATURES, robot_type="arm") as recorder:
        record_episode(recorder, frames=45)
    with reel.resume_dataset(path) as recorder:
        record_episode(recorder, frames=30)
    dataset = reel.open_dataset(path)
    print(dataset)
    print(dataset.read([50], ["observation.state", "task"]))


def record_episode(recorder: reel.Recorder, frames: int) -> None:
    """Record an arm that swings."""
    for i in range(frames):
        angles = np.sin([i / 10, i / 15]).astype(np.float32)
        image = np.zeros((64, 96, 3), np.uint8)
        image[20:40, i : i + 20] = 200
        recorder.add_frame(
            {"observation.state": angles, "action": angles, "observation.images.front": image},
            task="swing",
        )
    recorder.save_episode()


if __name__ == "__main__":
    main()
