"""LeRobot and the drop-in return the same items, for what LeRobot wrote and for what we wrote."""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.peers import peers_python
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from tests import PROJECT
from tests.factory import SHARED, needs_shared

torch = pytest.importorskip("torch")

from roboreel.lerobot import LeRobotDataset

pytestmark = pytest.mark.interop

ROWS = 60
OURS = {
    "av1": DemoSpec(episodes=5, frames=40, size=(96, 128), codec="av1"),
    "h264": DemoSpec(episodes=5, frames=40, size=(96, 128), codec="h264"),
    "image": DemoSpec(episodes=5, frames=40, size=(96, 128), store="image"),
    "many files": DemoSpec(episodes=23, frames=12, size=(64, 64), cameras=1),
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours")
    return {name: make_demo_dataset(folder / name, spec) for name, spec in OURS.items()}


def jobs_of(root: Path, folder: Path) -> list[dict[str, Any]]:
    """Return what both read: plainly, with deltas, and of some episodes."""
    dataset = LeRobotDataset("interop/test", root)
    frames = {"action": range(6), "observation.state": (-2, -1, 0), "next.reward": (-4, 0, 4)}
    frames |= dict.fromkeys(dataset.meta.camera_keys, (-1, 0))
    deltas = {name: [frame / dataset.fps for frame in when] for name, when in frames.items()}
    single = {camera: [-1 / dataset.fps] for camera in dataset.meta.camera_keys}
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "deltas": {"delta_timestamps": deltas},
        "single": {"delta_timestamps": {"action": [0.0], **single}},
        "episodes": {"episodes": [3, 1]},
        "both": {"episodes": [2, 0], "delta_timestamps": deltas},
    }
    jobs: list[dict[str, Any]] = []
    for kind, arguments in kinds.items():
        length = len(LeRobotDataset("interop/test", root, **arguments))
        rows = random.Random(kind).sample(range(length), min(ROWS, length))
        jobs.append(
            {
                "arguments": {"root": str(root), **arguments},
                "rows": rows,
                "out": str(folder / f"{kind}.npz"),
            }
        )
    return jobs


def read_with_lerobot(jobs: list[dict[str, Any]], folder: Path) -> None:
    python = peers_python()
    if python is None:
        pytest.skip("there is no peers' environment: run `make interop`")
    (folder / "jobs.json").write_text(json.dumps(jobs))
    environment = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [str(python), "-m", "tests.interop.lerobot_items", str(folder / "jobs.json")]
    done = subprocess.run(
        command, env=environment, cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def compare(job: dict[str, Any]) -> int:
    """Check every value of every item; return how many there were."""
    dataset = LeRobotDataset("interop/test", **job["arguments"], return_uint8=True)
    with np.load(job["out"]) as theirs:
        assert len(dataset) == int(theirs["len"])
        keys = {key for key in theirs.files if key != "len"}
        for row in job["rows"]:
            for name, value in dataset[row].items():
                keys.remove(f"{row}/{name}")
                expected = theirs[f"{row}/{name}"]
                if isinstance(value, str):
                    assert value == str(expected)
                    continue
                if expected.dtype == np.uint8 and value.dtype == torch.float32:
                    value = (value * 255).round().byte()  # pictures, which are always floats
                assert value.numpy().dtype == expected.dtype, name
                assert value.shape == expected.shape, name
                assert np.array_equal(value.numpy(), expected), (name, row, job["arguments"])
        assert not keys, "LeRobot returns what we do not"
        return len(theirs.files)


def check(root: Path, folder: Path) -> None:
    jobs = jobs_of(root, folder)
    read_with_lerobot(jobs, folder)
    assert sum(compare(job) for job in jobs) > 1000


@needs_shared
@pytest.mark.parametrize("name", ["lerobot_v30_numeric", "lerobot_v30_image", "lerobot_v30_video"])
def test_items_of_what_lerobot_wrote_are_equal(name, tmp_path):
    check(SHARED / name, tmp_path)


@pytest.mark.parametrize("name", OURS)
def test_items_of_what_we_wrote_are_equal(ours, name, tmp_path):
    check(ours[name], tmp_path)
