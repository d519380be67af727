"""How programs around LeRobot read a dataset, with its classes given; also runs beside LeRobot 0.3.

``python -m tests.interop.lerobot_scripts ROOT OUT.json`` runs them with LeRobot's own classes.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(root: str, out: str) -> None:
    """Run every script on LeRobot's own classes."""
    from benchmarks.peers.lerobot import declare_missing_operator

    declare_missing_operator()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset, LeRobotDatasetMetadata

    Path(out).write_text(json.dumps(run_all(LeRobotDataset, LeRobotDatasetMetadata, root)))


def run_all(dataset_class: Any, metadata_class: Any, root: str) -> dict[str, Any]:
    """Return what each script finds."""
    return {
        "openpi": read_like_openpi(dataset_class, metadata_class, root),
        "gr00t": read_like_gr00t(dataset_class, root),
        "metadata": read_metadata(metadata_class, root),
    }


def read_like_openpi(dataset_class: Any, metadata_class: Any, root: str) -> list[Any]:
    """Read action chunks by delta timestamps, with prompts looked up in ``meta.tasks``."""
    meta = metadata_class("some/robot", root=root)
    deltas = {"action": [t / meta.fps for t in range(10)]}
    dataset = dataset_class("some/robot", root=root, delta_timestamps=deltas)
    found = []
    for i in range(0, len(dataset), max(1, len(dataset) // 7)):
        item = dataset[i]
        prompt = meta.tasks[int(item["task_index"])]
        assert prompt == item["task"]
        found.append([i, prompt, *(digest(item[name]) for name in sorted(item) if name != "task")])
    return found


def read_like_gr00t(dataset_class: Any, root: str) -> dict[str, Any]:
    """Read whole episodes by ``episode_data_index``, with lengths from ``meta.episodes``."""
    dataset = dataset_class("some/robot", root=root)
    starts, stops = (dataset.episode_data_index[key].tolist() for key in ("from", "to"))
    episodes = {}
    for number, episode in dataset.meta.episodes.items():
        start, stop = starts[number], stops[number]
        assert stop - start == episode["length"]
        rows = dataset.hf_dataset.select(range(start, stop))
        states = np.stack([np.asarray(state) for state in rows["observation.state"]])
        last = dataset[stop - 1]
        images = [digest(last[name]) for name in dataset.meta.camera_keys]
        episodes[str(number)] = [start, stop, episode["tasks"], digest(states), *images]
    modality = {key: list(shape) for key, shape in dataset.meta.shapes.items()}
    return {"episodes": episodes, "modality": modality}


def read_metadata(metadata_class: Any, root: str) -> dict[str, Any]:
    """Read what both look up: tasks, statistics, files."""
    meta = metadata_class("some/robot", root=root)
    stats = {
        f"{name}/{key}": np.round(np.asarray(meta.stats[name][key], float), 6).ravel().tolist()
        for name in sorted(meta.stats)
        for key in ("mean", "std", "min", "max", "count")
    }
    first = {
        f"{name}/{key}": np.asarray(value).ravel().tolist()
        for name, entry in sorted(meta.episodes_stats[0].items())
        for key, value in sorted(entry.items())
        if not key.startswith("q")
    }
    return {
        "tasks": {str(number): text for number, text in meta.tasks.items()},
        "numbers": meta.task_to_task_index,
        "index": meta.get_task_index(meta.tasks[0]),
        "missing": meta.get_task_index("no such task"),
        "data": str(meta.get_data_file_path(1)),
        "videos": [str(meta.get_video_file_path(1, key)) for key in meta.video_keys],
        "chunk": meta.get_episode_chunk(1),
        "totals": [meta.total_episodes, meta.total_frames, meta.total_tasks, meta.total_chunks],
        "stats": stats,
        "first episode": first,
    }


def digest(values: Any) -> str:
    """Return a name for the dtype, the shape and the values of an array."""
    array = np.ascontiguousarray(np.asarray(values))
    kind = f"{array.dtype} {array.shape}"
    return f"{kind} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


if __name__ == "__main__":
    main(*sys.argv[1:3])
