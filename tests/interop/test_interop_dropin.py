"""The drop-in beside LeRobot 0.3.3, 0.4.4 and 0.6.1: scripts, and what is recorded through it."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.peers import peers_python
from tests import PROJECT
from tests.factory import SHARED, needs_shared
from tests.interop.lerobot_scripts import run_all

torch = pytest.importorskip("torch")

from roboreel.lerobot import LeRobotDataset, LeRobotDatasetMetadata

pytestmark = pytest.mark.interop

FRONT, DEPTH = "observation.images.front", "observation.images.depth"
SIZE = (64, 96)

ITEMS = """
import json, sys
from benchmarks.peers.lerobot import declare_missing_operator
declare_missing_operator()
from lerobot.datasets.lerobot_dataset import LeRobotDataset
dataset = LeRobotDataset("somebody/something", root=sys.argv[1], video_backend="pyav")
items = []
for i in range(len(dataset)):
    item = dataset[i]
    images = {name: item[name].float().mean().item() for name in dataset.meta.camera_keys}
    items.append([item["task"], item["observation.state"].tolist(), item["note"], images])
mean = dataset.meta.stats["observation.state"]["mean"].tolist()
print(json.dumps([items, mean]))
"""


def beside(version: str, tmp_path: Path, *arguments: str) -> str:
    """Run Python in the environment of a LeRobot version; return what it prints."""
    python = peers_python(version)
    if python is None:
        pytest.skip(f"there is no environment with LeRobot {version}")
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    environment |= {"PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(python), *arguments],
        env=environment, cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@needs_shared
def test_scripts_for_2_1_find_what_they_find_with_lerobot_0_3(tmp_path):
    root = str(SHARED / "unitree_g1_v21")
    beside(
        "0.3.3", tmp_path, "-m", "tests.interop.lerobot_scripts", root, str(tmp_path / "out.json")
    )
    theirs = json.loads((tmp_path / "out.json").read_text())
    ours = json.loads(json.dumps(run_all(LeRobotDataset, LeRobotDatasetMetadata, root)))
    assert ours["openpi"] == theirs["openpi"]
    assert ours["gr00t"] == theirs["gr00t"]
    stats, expected = ours["metadata"].pop("stats"), theirs["metadata"].pop("stats")
    first, wanted = (m["metadata"].pop("first episode") for m in (ours, theirs))
    assert ours["metadata"] == theirs["metadata"]
    assert stats.keys() >= expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(stats[name], values, rtol=1e-5, atol=2e-6, err_msg=name)
    for name, values in wanted.items():
        np.testing.assert_allclose(first[name], values, rtol=1e-6, err_msg=name)


def record(root: Path, *, depth: bool) -> None:
    camera = {"dtype": "video", "shape": (*SIZE, 3), "names": ["height", "width", "channels"]}
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": ["a", "b", "c"]},
        "note": {"dtype": "string", "shape": (1,), "names": None},
        FRONT: camera,
    }
    if depth:
        features[DEPTH] = {**camera, "shape": (*SIZE, 1), "info": {"is_depth_map": True}}
    dataset = LeRobotDataset.create("our/arm", 10, features, root, "arm", vcodec="h264")
    for episode in range(2):
        for i in range(4):
            values: dict[str, Any] = {
                "observation.state": torch.tensor([episode, i, i / 3]),
                "note": f"{episode} {i}",
                FRONT: np.full((3, *SIZE), 20 * (i + 1), np.uint8),
                "task": f"task {episode}",
            }
            if depth:
                values[DEPTH] = np.full((*SIZE, 1), 1000 + 100 * i, np.uint16)
            dataset.add_frame(values)
        dataset.save_episode()
    dataset.finalize()


@pytest.mark.parametrize("version", ["0.4.4", "0.6.1"])
def test_lerobot_reads_what_is_recorded_through_its_own_names(tmp_path, version):
    depth = version == "0.6.1"
    record(tmp_path / "arm", depth=depth)
    items, mean = json.loads(beside(version, tmp_path, "-c", ITEMS, str(tmp_path / "arm")))
    ours = LeRobotDataset("our/arm", tmp_path / "arm")
    assert len(items) == 8
    for i, (task, state, note, images) in enumerate(items):
        item = ours[i]
        assert (task, state, note) == (
            item["task"],
            item["observation.state"].tolist(),
            item["note"],
        )
        for name, value in images.items():
            assert value == pytest.approx(item[name].float().mean().item(), rel=1e-5), name
        assert images[FRONT] * 255 == pytest.approx(20 * (i % 4 + 1), abs=2)
        if depth:
            assert images[DEPTH] == pytest.approx(1000 + 100 * (i % 4), abs=2)
    np.testing.assert_allclose(mean, ours.meta.stats["observation.state"]["mean"], rtol=1e-6)


METRES = """
import hashlib, json, sys
from benchmarks.peers.lerobot import declare_missing_operator
declare_missing_operator()
from lerobot.datasets.lerobot_dataset import LeRobotDataset
name, root, unit = sys.argv[1:]
dataset = LeRobotDataset("somebody/something", root=root, depth_output_unit=unit)
pixels = [dataset[i][name].numpy().tobytes() for i in range(len(dataset))]
print(json.dumps([hashlib.sha256(one).hexdigest() for one in pixels]))
"""


@pytest.mark.parametrize("unit", ["mm", "m"])
def test_depth_equals_that_of_lerobot_on_this_machine_to_the_bit(tmp_path, unit):
    root = tmp_path / "arm"
    record(root, depth=True)
    theirs = json.loads(beside("0.6.1", tmp_path, "-c", METRES, DEPTH, str(root), unit))
    dataset = LeRobotDataset("our/arm", root, depth_output_unit=unit)
    ours = [dataset[i][DEPTH].numpy().tobytes() for i in range(len(dataset))]
    assert [hashlib.sha256(one).hexdigest() for one in ours] == theirs
