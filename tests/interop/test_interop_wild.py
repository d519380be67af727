"""What LeRobot reads of the wild datasets, we read too, and with the same values."""

import json

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import DatasetError
from tests.interop.lerobot_process import run_lerobot
from tests.project.test_wild import read_rows
from tests.video_factory import number_of
from tests.wild import WILD

pytestmark = pytest.mark.interop

READERS = [("0.3.3", "v2.1"), ("0.4.4", "v3.0"), ("0.6.1", "v3.0")]
KNOWN = {
    "fps-half-of-the-video": "It goes by time, at which the video shows the image of another frame.",
    "rotated-videos": "torchcodec applies the rotation: docs/format.md says why we do not.",
    "rows-missing": "It numbers rows as they are stored, so that all later ones move up.",
    "stale-backup-table": "It reads every table of the folder, whatever its name.",
}
"""Where LeRobot returns something else, and why."""


@pytest.fixture(scope="module")
def reads(tmp_path_factory):
    """Read all wild datasets with a LeRobot version, once."""
    kept = {}

    def read(lerobot, version):
        if lerobot not in kept:
            kept[lerobot] = _read_all(tmp_path_factory.mktemp("wild"), lerobot, version)
        return kept[lerobot]

    return read


def _read_all(folder, lerobot, version):
    names = [wild.name for wild in WILD if version in wild.versions]
    for wild in (wild for wild in WILD if wild.name in names):
        wild.make(folder / wild.name, version)
    (folder / "job.json").write_text(json.dumps([str(folder / name) for name in names]))
    run_lerobot(
        lerobot, folder, "tests.interop.lerobot_reads", folder / "job.json", folder / "out.json"
    )
    found = json.loads((folder / "out.json").read_text())
    return folder, dict(zip(names, found, strict=True))


@pytest.mark.parametrize(("lerobot", "version"), READERS)
def test_what_lerobot_reads_we_read_with_the_same_values(lerobot, version, reads):
    folder, theirs = reads(lerobot, version)
    assert sum(found["opens"] for found in theirs.values()) > 10
    wrong = []
    for name, found in theirs.items():
        if found["opens"] and name not in KNOWN:
            wrong += [f"{name}: {difference}" for difference in _differences(folder / name, found)]
    assert wrong == []


def _differences(root, theirs):
    """Yield each row for which LeRobot returns something that we do not."""
    dataset = reel.open_dataset(root)
    states, tasks = read_rows(dataset, "observation.state"), read_rows(dataset, "task")
    cameras = sorted({name for row in theirs["rows"] for name in row.get("images", ())})
    images = {camera: read_rows(dataset, camera) for camera in cameras}
    for row, item in enumerate(theirs["rows"]):
        if "error" in item:
            continue
        ours = {"state": states[row], "task": tasks[row]}
        ours |= {camera: images[camera][row] for camera in cameras}
        expected = {"state": item["state"], "task": item["task"], **item["images"]}
        for what, value in ours.items():
            if isinstance(value, DatasetError):
                yield f"row {row}, {what}: {value}"
            elif _plain(value) != expected[what]:
                yield f"row {row}, {what}: {_plain(value)!r}, LeRobot {expected[what]!r}"


def _plain(value):
    if isinstance(value, np.ndarray):
        return int(value[0]) if value.ndim == 1 else number_of(value[..., :3])
    return str(value)
