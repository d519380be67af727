"""Items that LeRobot returns, written to files. Runs in the peers' environment, without roboreel.

``python -m tests.interop.lerobot_items JOB.json``: a list of jobs, each with the arguments of a dataset,
the rows to read, and the file to write.
"""

import json
import sys
from typing import Any

import numpy as np

from benchmarks.peers.lerobot import declare_missing_operator


def main(path: str) -> None:
    """Carry out the jobs of a file."""
    declare_missing_operator()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    with open(path) as file:  # noqa: PTH123  # the peers' side: nothing but the essentials
        jobs = json.load(file)
    for job in jobs:
        dataset = LeRobotDataset("interop/test", **job["arguments"])
        arrays: dict[str, Any] = {"len": np.array(len(dataset))}
        for row in job["rows"]:
            for key, value in dataset[row].items():
                arrays[f"{row}/{key}"] = (
                    np.array(value) if isinstance(value, str) else packed(value)
                )
        np.savez(job["out"], **arrays)


def packed(value: Any) -> Any:
    """Return an array; images, floats between 0 and 1, as the bytes that they were."""
    if value.ndim >= 3 and value.shape[-3] == 3:
        whole = (value * 255).round().byte()
        assert (whole.float() / 255).equal(value)
        return whole.numpy()
    return value.numpy()


if __name__ == "__main__":
    main(sys.argv[1])
