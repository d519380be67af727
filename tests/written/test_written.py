"""What earlier versions wrote beside datasets is read: changes to undo, journals, caches, jobs."""

import json
import shutil
import sys

import numpy as np
import pytest
from filelock import FileLock

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.commit import list_changes, undo_change
from roboreel.dataset.cache.home import verify_cache
from roboreel.jobs import InProcess, open_job, run_job
from roboreel.record.recover import recover_dataset
from tests.commit.test_undo import tree_hash
from tests.written import unpack
from tests.written.make import FRONT, HOME, STATE, picture, proxy


def check_values(root, episodes):
    """Assert that a dataset has these episodes, each by its number when it was recorded and length."""
    dataset = reel.open_dataset(root)
    assert dataset.episodes.lengths.tolist() == [length for _, length in episodes]
    for episode, (number, length) in zip(dataset.episodes, episodes, strict=True):
        states, images = episode[STATE], episode[FRONT]
        assert states[:, 0].tolist() == [number * 100 + i for i in range(length)]
        for i in range(length):
            assert abs(images[i].astype(int) - picture(number, i).transpose(2, 0, 1)).max() < 6
    return dataset


@pytest.fixture
def jobs():
    """The folder that the jobs were made in, for one test at a time."""
    with FileLock(f"{HOME}.lock"):
        shutil.rmtree(HOME, ignore_errors=True)
        yield unpack("job", HOME)
        shutil.rmtree(HOME)


def test_changes_are_listed_and_undone(tmp_path):
    root = unpack("undo", tmp_path) / "arm"
    assert [change.number for change in list_changes(root)] == [2, 1]
    assert [change.command for change in list_changes(root)] == ["edit", "edit"]
    undo_change(root)
    check_values(root, [(0, 3), (2, 5), (3, 6)])
    undo_change(root)
    assert tree_hash(root) == tree_hash(tmp_path / "before")
    check_values(root, [(0, 3), (1, 4), (2, 5), (3, 6)])


def test_edits_that_died_are_finished_or_never_were(tmp_path):
    unpack("commit", tmp_path)
    before, after = tree_hash(tmp_path / "before"), tree_hash(tmp_path / "after")
    seen = []
    for root in sorted(tmp_path.glob("died-*")):
        recover_dataset(root)
        seen.append(tree_hash(root))
        whole = [(0, 3), (1, 4), (2, 5)]
        check_values(root, whole if seen[-1] == before else [(0, 3), (2, 5)])
    assert set(seen) == {before, after}
    assert seen == sorted(seen, key=[before, after].index)


@pytest.mark.parametrize("name", ["image", "video"])
def test_a_journal_becomes_an_episode(name, tmp_path):
    root = unpack("journal", tmp_path) / name
    found = recover_dataset(root)
    assert (found.kept_frames, found.set_aside) == (7, ())
    dataset = check_values(root, [(0, 2), (1, 7)])
    assert dataset.episodes[1].tasks == ("task 1",)
    assert dataset.episodes[0].metadata["operator"] == "Ann"


def test_a_saved_view_is_opened(tmp_path):
    dataset = reel.open_dataset(unpack("view", tmp_path) / "arm", view="good")
    assert dataset.episodes.numbers.tolist() == [0, 2]


@pytest.mark.parametrize("name", ["jpeg", "raw"])
def test_a_cache_is_used(name, tmp_path):
    root = unpack("cache", tmp_path) / "arm"
    assert verify_cache(tmp_path / name) == []
    dataset = reel.open_dataset(root, cache=tmp_path / name)
    shutil.rmtree(root / "data")
    values = dataset.read([11], [STATE, FRONT])
    assert values[STATE][0, 0] == 204
    assert values[FRONT].shape == ((1, 3, 8, 12) if name == "jpeg" else (1, 3, 16, 24))
    assert abs(values[FRONT].astype(int) - picture(2, 4).mean()).max() < 3


@pytest.mark.skipif(sys.platform != "linux", reason="jobs tell the folder that they were made in")
@pytest.mark.parametrize("name", ["stats", "check", "cache", "convert", "merge", "edit", "import"])
def test_a_job_is_finished(name, jobs):
    if name == "import":
        pytest.importorskip("h5py")
    root, out = jobs / "arm", jobs / f"out-{name}"
    job = open_job(jobs / f"job-{name}")
    assert 0 < job.done().sum() < len(job.plan)
    run_job(job, InProcess())
    result = job.commit()
    whole = list(enumerate([3, 4, 5, 6, 7, 8]))
    if name == "stats":
        assert result[STATE]["count"] == [33]
    elif name == "check":
        assert len(result) == len(check_dataset(root, tier="deep"))
    elif name == "cache":
        assert verify_cache(out) == []
        assert len(reel.open_dataset(root, cache=out)) == 33
    elif name == "import":
        assert reel.open_dataset(out).episodes.lengths.tolist() == [6, 6, 6]
    else:
        check_values(out, whole * 2 if name == "merge" else whole)
        assert json.loads((out / "meta/info.json").read_text())["codebase_version"] == (
            "v2.1" if name == "convert" else "v3.0"
        )


def test_a_mirror_is_read_without_fetching_again(tmp_path):
    pytest.importorskip("obstore")
    unpack("mirror", tmp_path)
    with proxy(tmp_path) as asked:
        far = reel.open_dataset("http://robots.test/arm", mirror=tmp_path / "mirror")
        np.testing.assert_array_equal(far.episodes[2][STATE][:, 0], np.arange(200, 205))
    assert len(list((tmp_path / "mirror").glob("*/mirror.json"))) == 1
    assert [name for name, ranges in asked if ranges] == []
