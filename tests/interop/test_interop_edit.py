"""LeRobot reads every edited dataset, and finds the rows and images that should be there."""

import json

import numpy as np
import pytest

from roboreel.edit import edit_dataset, plan_conversion, plan_merge, plan_split
from tests.clean import CAMERAS, LENGTHS, NUM_ROWS, STARTS, clean_dataset, shown, task_of
from tests.interop.lerobot_process import run_lerobot

pytestmark = pytest.mark.interop

READERS = [("0.3.3", "v2.1"), ("0.4.4", "v3.0"), ("0.6.1", "v3.0")]


def rows(*parts):
    """Return the rows of parts of episodes, in order."""
    spans = [(STARTS[e] + a, STARTS[e] + (LENGTHS[e] if b is None else b)) for e, a, b in parts]
    return np.concatenate([np.arange(*span) for span in spans]).tolist()


def whole(*episodes):
    return rows(*((episode, 0, None) for episode in episodes))


def edited(folder, version):
    """Yield datasets in a version, the old rows that each should have, and tasks by old row."""

    def root(name):
        return clean_dataset(folder / name, version)

    edit_dataset(root("delete")).delete([1, 4]).apply()
    yield "delete", whole(0, 2, 3, 5)
    edit_dataset(root("cut")).trim(2, start=5, stop=15).cut(3, at=13).apply()
    parts = [(0, 0, None), (1, 0, None), (2, 5, 15), (3, 0, 13), (3, 13, None), (4, 0, None)]
    yield "cut", rows(*parts, (5, 0, None))
    edit_dataset(root("columns")).set([0], {"success": True}).set([2], {"score": 0.5}).apply()
    yield "columns", list(range(NUM_ROWS))
    edit_dataset(root("scrub")).delete([0]).scrub().apply()
    yield "scrub", whole(1, 2, 3, 4, 5)
    plan_merge([root("a"), folder / "delete"], folder / "merge").apply()
    yield "merge", [*range(NUM_ROWS), *whole(0, 2, 3, 5)]
    other = "v3.0" if version == "v2.1" else "v2.1"
    for old in (other, "v2.0"):
        old_root = clean_dataset(folder / f"old-{old}", old)
        plan_conversion(old_root, version, folder / f"from-{old}").apply()
        yield f"from-{old}", list(range(NUM_ROWS))
    plans = plan_split(root("whole"), {"x": 0.5, "y": 0.5}, folder / "split", seed=3)
    plans["x"].apply()
    kept = [piece.episode for piece in plans["x"].context.recipe.pieces]
    yield "split/x", whole(*kept)


@pytest.mark.parametrize(("lerobot", "version"), READERS)
def test_lerobot_finds_every_row_and_image_of_edited_datasets(lerobot, version, tmp_path):
    expected = dict(edited(tmp_path, version))
    (tmp_path / "job.json").write_text(json.dumps([str(tmp_path / name) for name in expected]))
    run_lerobot(
        lerobot,
        tmp_path,
        "tests.interop.lerobot_reads",
        tmp_path / "job.json",
        tmp_path / "out.json",
    )
    found = json.loads((tmp_path / "out.json").read_text())
    for (name, old), read in zip(expected.items(), found, strict=True):
        assert read["opens"], (name, read["error"])
        assert read["rows"] == [true_row(row) for row in old], name


@pytest.mark.parametrize("lerobot", ["0.4.4", "0.6.1"])
def test_lerobot_finds_new_tasks_and_names(lerobot, tmp_path):
    root = clean_dataset(tmp_path / "d")
    top = "observation.images.top"
    edit_dataset(root).set_task([1], "pour").rename(CAMERAS[0], top).delete([0]).apply()
    (tmp_path / "job.json").write_text(json.dumps([str(root)]))
    run_lerobot(
        lerobot,
        tmp_path,
        "tests.interop.lerobot_reads",
        tmp_path / "job.json",
        tmp_path / "out.json",
    )
    (read,) = json.loads((tmp_path / "out.json").read_text())
    assert read["opens"], read["error"]
    first = true_row(STARTS[1])
    images = {top: first["images"][CAMERAS[0]], CAMERAS[1]: first["images"][CAMERAS[1]]}
    assert read["rows"][0] == {"state": STARTS[1], "images": images, "task": "pour"}
    assert read["rows"][LENGTHS[1]]["task"] == task_of(STARTS[2])


def true_row(row):
    """Return a row of the clean dataset, in the words of `tests.interop.lerobot_reads`."""
    images = {camera: shown(camera, [row])[0] for camera in CAMERAS}
    return {"state": row, "images": images, "task": task_of(row)}
