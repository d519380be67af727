"""A clean dataset that LeRobot records itself. Runs in a peers' environment, without roboreel.

``python -m tests.interop.lerobot_record ROOT video|image|files``: random numbers, an array of 4x4, a
constant, a boolean, a text, and two cameras, one of which hardly moves. The first number of
``observation.state`` is the row; so is what `number_of` reads in the first camera. With ``files``,
videos and data are in many files.
"""

import inspect
import sys
from typing import Any

import numpy as np

from benchmarks.peers.lerobot import declare_missing_operator
from tests.video_factory import numbered_image

FPS = 30
SIZE = (64, 96)
LENGTHS = (30, 21, 45, 12, 33)
TASKS = ("pick the cube", "open the drawer")
FRONT, WRIST = "observation.images.front", "observation.images.wrist"


def main(root: str, kind: str) -> None:
    """Record a dataset."""
    store = "image" if kind == "image" else "video"
    declare_missing_operator()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset.create(
        "clean/recorded",
        fps=FPS,
        root=root,
        robot_type="test_arm",
        features=features(store),
        use_videos=store == "video",
    )
    if kind == "files":  # since 0.4; too small for its own setter
        for limit in ("data_files_size_in_mb", "video_files_size_in_mb"):
            set_limit(dataset.meta.info, limit, 0.01)
    with_task = "task" in inspect.signature(dataset.add_frame).parameters  # until 0.3
    rng = np.random.default_rng(0)
    row = 0
    for episode, length in enumerate(LENGTHS):
        task = TASKS[episode % len(TASKS)]
        for _ in range(length):
            values = frame(row, rng)
            if with_task:
                dataset.add_frame(values, task=task)
            else:
                dataset.add_frame({**values, "task": task})
            row += 1
        dataset.save_episode()
    if hasattr(dataset, "finalize"):  # since 0.4
        dataset.finalize()


def set_limit(info: Any, name: str, megabytes: float) -> None:
    """Change a setting of info.json, a dict until 0.5 and an object since."""
    if isinstance(info, dict):
        info[name] = megabytes
    else:
        setattr(info, name, megabytes)


def features(store: str) -> dict[str, Any]:
    """Return the features, as LeRobot takes them."""
    camera = {"dtype": store, "shape": (*SIZE, 3), "names": ["height", "width", "channels"]}
    vector = {"dtype": "float32", "shape": (6,), "names": [f"joint_{i}" for i in range(6)]}
    return {
        "observation.state": vector,
        "action": vector,
        "observation.pose": {"dtype": "float64", "shape": (4, 4), "names": None},
        "observation.temperature": {"dtype": "float32", "shape": (1,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
        "note": {"dtype": "string", "shape": (1,), "names": None},
        FRONT: camera,
        WRIST: camera,
    }


def frame(row: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the values of one frame."""
    state = rng.normal(size=6).astype(np.float32)
    state[0] = row
    pose = np.eye(4)
    pose[:3] += rng.normal(size=(3, 4))
    wrist = np.full((*SIZE, 3), (40, 90, 140), np.uint8)
    wrist[20:26, row % 80 : row % 80 + 6] = 200
    return {
        "observation.state": state,
        "action": rng.normal(size=6).astype(np.float32),
        "observation.pose": pose,
        "observation.temperature": np.array([36.5], np.float32),
        "next.done": np.array([row % 20 == 19]),
        "note": f"row {row}",
        FRONT: numbered_image(row, *SIZE),
        WRIST: wrist,
    }


if __name__ == "__main__":
    main(*sys.argv[1:3])
