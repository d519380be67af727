"""Data files of episodes that the table does not list: they stay, and can become a dataset."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.commit import STORE
from roboreel.edit import plan_merge
from roboreel.errors import EditError, RecordingError
from roboreel.repair import plan_repair, repair_dataset
from tests.clean import CAMERAS, FRONT, LENGTHS, TASKS, WRIST, clean_dataset
from tests.cli.test_cli import roboreel_
from tests.same_dataset import files_of
from tests.surgery import Folder

BOTH = ("v2.1", "v3.0")
GONE = (4, 5)
"""In v3.0 they share their files."""


def forgetful(root, version, store="video"):
    """Let the tables forget the last two episodes, whose files stay."""
    other = clean_dataset(root.with_name(f"{root.name}-whole"), version, store=store)
    clean_dataset(root, version, store=store)
    reel.edit_dataset(root).delete(GONE).apply()
    for name, path in files_of(other).items():
        if name.startswith(("data/", "videos/")) and not (root / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(path.read_bytes())
    return root, other


def contents(root):
    return {name: path.read_bytes() for name, path in files_of(root).items()}


def orphans(root):
    return {one.file for one in check_dataset(root) if one.code == "RR105"}


@pytest.fixture(params=BOTH)
def version(request):
    return request.param


def test_they_stay_where_they_are_and_the_plan_names_them(version, tmp_path):
    root, _ = forgetful(tmp_path / "d", version)
    before = contents(root)
    assert len(orphans(root)) == (6 if version == "v2.1" else 3)
    plan = plan_repair(root)
    assert not plan
    assert [n for one in plan.unlisted for n in one.episodes] == list(GONE)
    assert sum(sum(one.lengths) for one in plan.unlisted) == LENGTHS[4] + LENGTHS[5]
    assert all(dict(one.videos).keys() == set(CAMERAS) for one in plan.unlisted)
    assert "--set-aside" in str(plan)
    assert "--recover-unlisted DIR" in str(plan)
    repair_dataset(root)
    assert contents(root) == before


def test_they_stay_in_a_copy_too(version, tmp_path):
    root, _ = forgetful(tmp_path / "d", version)
    strays = orphans(root)
    clean = contents(root)
    Folder(root).edit_info(total_frames=7)
    before = contents(root)
    done = repair_dataset(root, out=tmp_path / "copy")
    assert {one.code for one in done.cured} == {"RR101"}
    assert contents(root) == before
    assert strays <= contents(tmp_path / "copy").keys()
    assert contents(tmp_path / "copy") == clean


def test_they_are_set_aside_when_asked_for(version, tmp_path):
    root, _ = forgetful(tmp_path / "d", version)
    strays = {file: (root / file).read_bytes() for file in orphans(root)}
    repair_dataset(root, set_aside=True, out=tmp_path / "copy")
    assert not strays.keys() & contents(tmp_path / "copy").keys()
    repair_dataset(root, set_aside=True)
    assert orphans(root) == set()
    assert {file: (root / STORE / "aside" / file).read_bytes() for file in strays} == strays


def test_a_video_without_rows_is_set_aside(version, tmp_path):
    root, _ = forgetful(tmp_path / "d", version)
    data = [file for file in orphans(root) if file.startswith("data/")]
    for file in data:
        (root / file).unlink()
    repair_dataset(root)
    assert orphans(root) == set()


@pytest.mark.parametrize("store", ["video", "image"])
@pytest.mark.parametrize("place", ["in place", "copy"])
def test_they_become_a_dataset_of_their_own(version, store, place, tmp_path):
    root, other = forgetful(tmp_path / "d", version, store)
    before = contents(root)
    copy = tmp_path / "copy" if place == "copy" else None
    done = repair_dataset(root, recover=tmp_path / "found", out=copy)
    assert len(done.plans) == 1
    assert contents(root) == before
    assert copy is None or contents(copy) == before
    whole, new = reel.open_dataset(other), reel.open_dataset(tmp_path / "found")
    assert new.version == version
    assert len(new.episodes) == len(GONE)
    for number, old in enumerate(GONE):
        read = new.episodes[number].read()
        for name, values in whole.episodes[old].read().items():
            if name not in ("index", "episode_index"):
                assert np.array_equal(read[name], values), name
        assert list(new.episodes[number].tasks) == list(whole.episodes[old].tasks)
    assert not check_dataset(tmp_path / "found", tier="deep").at_least("warning")


def test_they_can_be_merged_with_the_others(version, tmp_path):
    root, other = forgetful(tmp_path / "d", version)
    repair_dataset(root, recover=tmp_path / "found", set_aside=True)
    assert orphans(root) == set()
    plan_merge([root, tmp_path / "found"], tmp_path / "all").apply()
    merged, whole = reel.open_dataset(tmp_path / "all"), reel.open_dataset(other)
    names = ["observation.state", "task", FRONT, WRIST]
    one, two = (each.read(range(len(whole)), names) for each in (merged, whole))
    assert len(merged) == len(whole)
    assert all(np.array_equal(one[name], two[name]) for name in names)


def test_a_camera_whose_video_does_not_fit_is_left_out(version, tmp_path):
    root, _ = forgetful(tmp_path / "d", version)
    folder = Folder(root)
    [wrong] = [f for f in sorted(orphans(root)) if WRIST in f][:1]
    (root / wrong).write_bytes((root / folder.video(WRIST, 0)).read_bytes())
    plan = plan_repair(root)
    assert plan.lacking == (WRIST,)
    repair_dataset(root, recover=tmp_path / "found")
    found = reel.open_dataset(tmp_path / "found")
    assert FRONT in found.features
    assert WRIST not in found.features


def test_tasks_that_have_no_text_stay_without_one(version, tmp_path):
    root, _ = forgetful(tmp_path / "d", version)
    for file in [f for f in orphans(root) if f.startswith("data/")]:
        table = pq.read_table(root / file)
        at = table.column_names.index("task_index")
        numbers = np.full(len(table), 77)
        pq.write_table(table.set_column(at, "task_index", [numbers]), root / file)
    repair_dataset(root, recover=tmp_path / "found")
    found = reel.open_dataset(tmp_path / "found")
    assert [list(one.tasks) for one in found.episodes] == [[], []]
    assert sorted(found.tasks.values()) == sorted(TASKS)


def test_files_that_hold_the_same_numbers_are_episodes_of_their_own(version, tmp_path):
    root = clean_dataset(tmp_path / "d", version)
    first = root / Folder(root).data(0)
    for name in ("backup.parquet", "older.parquet"):
        first.with_name(name).write_bytes(first.read_bytes())
    repair_dataset(root, recover=tmp_path / "found")
    found = reel.open_dataset(tmp_path / "found")
    assert found.episodes.lengths.tolist() == list(LENGTHS[: len(found.episodes) // 2]) * 2


def test_the_folder_must_be_free_and_outside(tmp_path):
    root, _ = forgetful(tmp_path / "d", "v3.0")
    before = contents(root)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").touch()
    with pytest.raises(RecordingError, match="already exists"):
        repair_dataset(root, recover=tmp_path / "taken")
    for place in (root / "found", tmp_path / "copy", tmp_path / "copy/found"):
        with pytest.raises(EditError, match="dataset of their own"):
            repair_dataset(root, recover=place, out=tmp_path / "copy")
    assert contents(root) == before


class TestTheCommand:
    def test_it_names_them_and_the_two_choices(self, version, tmp_path):
        root, _ = forgetful(tmp_path / "d", version)
        for options in (["--dry-run"], ["--yes"]):
            done = roboreel_("repair", str(root), *options)
            assert done.code == 1
            assert done.out.count("--recover-unlisted DIR") == 1
            assert "images must be decoded" not in done.out
        said = json.loads(roboreel_("repair", str(root), "--dry-run", "--json").out)
        assert sum(one["rows"] for one in said["unlisted"]) == LENGTHS[4] + LENGTHS[5]

    def test_it_recovers_them(self, version, tmp_path):
        root, _ = forgetful(tmp_path / "d", version)
        asked = ["repair", str(root), "--recover-unlisted", str(tmp_path / "found")]
        done = roboreel_(*asked, "--dry-run")
        assert "Recovers 2 episodes" in done.out
        assert not (tmp_path / "found").exists()
        done = roboreel_(*asked, "--set-aside", "--yes", "--json")
        assert done.code == 0
        [plan] = json.loads(done.out)["rounds"]
        assert plan["recovery"] == str(tmp_path / "found")
        assert len(reel.open_dataset(tmp_path / "found").episodes) == 2

    def test_it_says_if_there_are_none(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        done = roboreel_("repair", str(root), "--recover-unlisted", str(tmp_path / "x"), "--yes")
        assert "no data files of unlisted episodes" in done.out
        assert not (tmp_path / "x").exists()
