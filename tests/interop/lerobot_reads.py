"""What LeRobot returns of datasets, row by row, or how it fails. Runs in a peers' environment.

``python -m tests.interop.lerobot_reads JOB.json OUT.json [BACKEND]``: the job is a list of folders, and the
result has an entry for each: ``{"opens", "error", "length", "rows": [{"state", "images", "task"} or
{"error"}]}``. Images are given as the numbers that they show.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.lerobot import declare_missing_operator
from tests.video_factory import number_of


def main(job: str, out: str, backend: str = "torchcodec") -> None:
    """Read the datasets of a job."""
    declare_missing_operator()
    found = [read(root, backend) for root in json.loads(Path(job).read_text())]
    Path(out).write_text(json.dumps(found))


def read(root: str, backend: str) -> dict[str, Any]:
    """Return what LeRobot makes of one dataset."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    try:
        dataset = LeRobotDataset("wild/dataset", root=root, video_backend=backend)
        length = len(dataset)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what its users see
        return {"opens": False, "error": describe(error), "length": 0, "rows": []}
    rows = [read_row(dataset, row) for row in range(length)]
    return {"opens": True, "error": None, "length": length, "rows": rows}


def read_row(dataset: Any, row: int) -> dict[str, Any]:
    """Return what one item holds."""
    try:
        item = dataset[row]
        images = {
            name: number_of((value.numpy() * 255).round().astype(np.uint8)[:3].transpose(1, 2, 0))
            for name, value in item.items()
            if name.startswith("observation.images.") and value.ndim == 3
        }
        return {"state": int(item["observation.state"][0]), "images": images, "task": item["task"]}
    except Exception as error:  # noqa: BLE001
        return {"error": describe(error)}


def describe(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


if __name__ == "__main__":
    main(*sys.argv[1:4])
