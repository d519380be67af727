"""What LeRobot writes is clean to `check`, and what `repair` leaves is what LeRobot reads."""

import json

import pytest

from roboreel.check import check_dataset
from roboreel.repair import repair_dataset
from tests.clean import CAMERAS, NUM_ROWS, clean_dataset, shown, task_of
from tests.corruptions import CORRUPTIONS
from tests.interop.lerobot_process import run_lerobot

pytestmark = pytest.mark.interop

WRITERS = [
    *((lerobot, kind) for lerobot in ("0.4.4", "0.6.1") for kind in ("video", "image", "files")),
    ("0.3.3", "video"),
    ("0.3.3", "image"),
]
DEFECTS = {"0.4.4": {("RR504", "observation.images.wrist")}}
"""What is wrong indeed: 0.4.0 to 0.5.1 store the std of the means of images, 0 for this camera."""
READERS = [("0.3.3", "v2.1"), ("0.4.4", "v3.0"), ("0.6.1", "v3.0")]
REPAIRED = (
    "parquet-without-footer",
    "counts-differ",
    "clip-starts-half-a-second-late",
    "clip-starts-one-frame-late",
    "length-wrong",
    "dangling-task-index",
    "rows-out-of-order",
    "episode-listed-twice",
    "folder-differs-from-template",
    "orphan-data-file",
)
"""Corruptions that change what LeRobot reads, or whether it opens the dataset at all."""


@pytest.mark.parametrize(("lerobot", "kind"), WRITERS)
def test_what_lerobot_writes_has_notes_at_most(lerobot, kind, tmp_path):
    run_lerobot(lerobot, tmp_path, "tests.interop.lerobot_record", tmp_path / "d", kind)
    for tier in ("metadata", "numbers", "index", "deep"):
        findings = check_dataset(tmp_path / "d", tier=tier)
        found = {(one.code, one.feature): str(one) for one in findings.at_least("warning")}
        assert found.keys() == DEFECTS.get(lerobot, set()), found


@pytest.mark.parametrize(("lerobot", "version"), READERS)
def test_lerobot_reads_what_was_repaired_as_if_nothing_had_been(lerobot, version, tmp_path):
    chosen = [one for one in CORRUPTIONS if one.name in REPAIRED and version in one.versions]
    assert len(chosen) >= 8
    for corruption in chosen:
        root = clean_dataset(tmp_path / corruption.name, version)
        corruption.apply(root)
        # LeRobot 0.3.3 reads every file of data/, whether an episode is listed for it or not.
        repair_dataset(root, set_aside=corruption.name == "orphan-data-file")
    roots = [str(tmp_path / corruption.name) for corruption in chosen]
    (tmp_path / "job.json").write_text(json.dumps(roots))
    run_lerobot(
        lerobot,
        tmp_path,
        "tests.interop.lerobot_reads",
        tmp_path / "job.json",
        tmp_path / "out.json",
    )
    for name, found in zip(roots, json.loads((tmp_path / "out.json").read_text()), strict=True):
        assert found["opens"], (name, found["error"])
        assert found["rows"] == list(map(true_row, range(NUM_ROWS))), name


def true_row(row):
    """Return a row of the clean dataset, in the words of `tests.interop.lerobot_reads`."""
    images = {camera: shown(camera, [row])[0] for camera in CAMERAS}
    return {"state": row, "images": images, "task": task_of(row)}
