"""On a full disk every writer says so, leaves nothing behind, and works again once there is room."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.edit import plan_conversion, plan_merge
from roboreel.errors import DatasetError
from roboreel.importing import Changes, import_dataset
from roboreel.jobs import InProcess, execute
from roboreel.record.compact import compact_dataset
from roboreel.record.recover import recover_dataset
from roboreel.report import write_report
from roboreel.schema import Feature
from roboreel.shards import Array, write_shards
from tests.factory import NUMBERS, write_dataset
from tests.jobs.job_operations import squares

pytest.importorskip("rerun")
from roboreel.rerun import export_episodes

SIZE_BYTES = 3 << 20
FEATURES = {**NUMBERS, "front": Feature("image", (32, 48, 3))}


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(folder)]
    if sys.platform != "linux" or os.geteuid() or not shutil.which("mount"):
        pytest.skip("needs the right to mount a small disk")
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def disk(mounted):
    yield mounted
    for path in mounted.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    write_dataset(tmp_path_factory.mktemp("source") / "d", [6, 5], features=FEATURES)
    return reel.open_dataset(next(tmp_path_factory.getbasetemp().glob("source*/d")))


def noise(count, size=(64, 96, 3)):
    return np.random.default_rng(0).integers(0, 256, (count, *size), np.uint8)


def shards(_, out):
    examples = ({"x": image.reshape(-1)} for image in noise(20))
    write_shards(examples, {"x": Array((64 * 96 * 3,), "uint8")}, out / "shards", batch_size=4)


def demo(_, out):
    make_demo_dataset(out / "demo", DemoSpec(episodes=1, frames=12, size=(64, 96), codec="h264"))


def recording(dataset, out):
    """Import a table of numbers, which lies beside the dataset."""
    table = dataset.path.parent / "table"
    table.mkdir(exist_ok=True)
    rows = "".join(f"{row / 10},{row},{row}\n" for row in range(20))
    (table / "rows.csv").write_text(f"time,state_0,state_1\n{rows}")
    import_dataset(table, out / "imported", changes=Changes(task="t"))


def job(_, out):
    assert execute(squares(4), on=InProcess(), folder=out / "job", retries=0) is not None


def record(store):
    def run(_, out):
        features = {"x": Feature("float32", (3,)), "front": Feature(store, (64, 96, 3))}
        encoding = reel.Encoding("h264", crf=1) if store == "video" else None
        with reel.create_dataset(
            out / store, fps=10, features=features, encoding=encoding
        ) as recorder:
            for image in noise(16):
                recorder.add_frame({"x": np.zeros(3, np.float32), "front": image}, task="t")
            recorder.save_episode()

    return run


WRITERS = {
    "export": lambda dataset, out: export_episodes(dataset, out / "export"),
    "report": lambda dataset, out: write_report(dataset, out / "report.html"),
    "materialize": lambda dataset, out: dataset.materialize(out / "cache", {"*": reel.Raw()}),
    "shards": shards,
    "demo": demo,
    "merge": lambda dataset, out: plan_merge([dataset.path] * 2, out / "merged").apply(),
    "convert": lambda dataset, out: plan_conversion(dataset.path, "v2.1", out / "old").apply(),
    "edit": lambda dataset, out: reel.edit_dataset(dataset.path).delete([0]).apply(out / "edited"),
    "import": recording,
    "job": job,
    "record images": record("image"),
    "record video": record("video"),
}


def fill(disk: Path, left_bytes: int) -> Path:
    """Fill a disk but for some bytes."""
    free_bytes = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    path = disk / "filler"
    path.write_bytes(bytes(free_bytes - left_bytes))
    return path


def unfinished(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*.tmp-*")]


def names_the_disk(error: Exception) -> bool:
    number = getattr(error, "errno", None) or getattr(error.__cause__, "errno", None)
    return number == errno.ENOSPC or any(w in str(error) for w in ("space left", "make room"))


@pytest.mark.filterwarnings("ignore:The open episode lacks images", "ignore:Sketches")
@pytest.mark.parametrize("left_bytes", [0, 4096, 16384, 65536])
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_named_and_nothing_is_left(dataset, disk, name, left_bytes):
    filler = fill(disk, left_bytes)
    is_done = False
    try:
        WRITERS[name](dataset, disk)
        is_done = True
        assert left_bytes
    except (OSError, DatasetError) as error:
        assert names_the_disk(error)  # noqa: PT017  # with some room left, it may not raise
    assert not unfinished(disk)
    filler.unlink()
    for root in [path.parents[1] for path in disk.glob("*/meta/info.json")]:
        # What was recorded before is kept, and so is a whole copy.
        if is_done or recover_dataset(root).found_frames:
            shutil.rmtree(root)
    WRITERS[name](dataset, disk)
    assert not unfinished(disk)


@pytest.mark.parametrize("left_bytes", [0, 8192])
def test_compaction_on_a_full_disk_leaves_the_dataset_as_it_was(disk, left_bytes):
    features = {"x": Feature("float32", (512,))}
    with reel.create_dataset(
        disk / "d", fps=10, features=features, compact_on_close=False
    ) as recorder:
        for value in np.random.default_rng(0).random((3, 8, 512), np.float32):
            for row in value:
                recorder.add_frame({"x": row}, task="t")
            recorder.save_episode()
    filler = fill(disk, left_bytes)
    with pytest.raises((OSError, DatasetError)):
        compact_dataset(disk / "d")
    before = reel.open_dataset(disk / "d").read(range(24), ["x"])["x"]
    filler.unlink()
    assert compact_dataset(disk / "d")
    np.testing.assert_array_equal(reel.open_dataset(disk / "d").read(range(24), ["x"])["x"], before)
    assert not unfinished(disk)
