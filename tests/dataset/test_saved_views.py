"""Views saved under a name: where they lie, and what notices a change."""

import json
import os
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.dataset.saved_views import list_views
from roboreel.errors import StaleDatasetError, UnsafePathError, ViewError
from tests.factory import write_dataset, write_dataset_v2

LENGTHS = [3, 1, 5, 2, 4]


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    write_dataset(tmp_path / "arm", LENGTHS)
    return tmp_path / "arm"


def numbers(root, name="good"):
    return reel.open_dataset(root, view=name).episodes.numbers.tolist()


def test_a_view_is_opened_by_its_name(root):
    dataset = reel.open_dataset(root)
    path = reel.save_view(dataset.select([0, 1, 4]), "good")
    assert path == root / ".roboreel" / "views" / "good.json"
    assert numbers(root) == [0, 1, 4]
    assert reel.open_dataset(root, view="good")[4]["index"] == 11
    reel.save_view(dataset.select([2]), "good")
    assert numbers(root) == [2]
    assert list_views(root) == ["good"]
    assert path.stat().st_size < 500


@pytest.mark.parametrize("episodes", [[], [0, 1, 2, 3, 4], [1, 3]])
def test_any_view_can_be_saved(root, episodes):
    reel.save_view(reel.open_dataset(root).select(episodes), "any.1-x_Y")
    assert numbers(root, "any.1-x_Y") == episodes


def test_the_dataset_is_as_sound_as_before(root):
    from roboreel.check import check_dataset

    before = [finding.code for finding in check_dataset(root)]
    reel.save_view(reel.open_dataset(root), "good")
    assert [finding.code for finding in check_dataset(root)] == before


def test_a_view_moves_with_its_dataset(root, tmp_path):
    reel.save_view(reel.open_dataset(root).select([1]), "good")
    root.rename(tmp_path / "elsewhere")
    assert numbers(tmp_path / "elsewhere") == [1]


def test_a_snapshot_of_the_hub_keeps_its_folder_clean(root, tmp_path):
    info = root / "meta" / "info.json"
    info.rename(tmp_path / "blob")
    info.symlink_to(tmp_path / "blob")
    path = reel.save_view(reel.open_dataset(root).select([1]), "good")
    assert path.is_relative_to(tmp_path / "home" / "roboreel" / "views")
    assert not (root / ".roboreel").exists()
    assert numbers(root) == [1]


def test_a_folder_that_cannot_be_written_stays_as_it_is(root, tmp_path, monkeypatch):
    # Root may write anywhere, so that permissions alone would not do.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    path = reel.save_view(reel.open_dataset(root).select([3]), "good")
    assert path.is_relative_to(tmp_path / "home")
    assert numbers(root) == [3]


def test_episodes_that_are_appended_change_nothing(root):
    reel.save_view(reel.open_dataset(root).select([1, 4]), "good")
    write_dataset(root, [*LENGTHS, 7, 7])
    assert numbers(root) == [1, 4]


@pytest.mark.parametrize("lengths", [[3, 1, 5, 2], [1, 5, 2, 4, 9], [3, 1, 5, 2, 3]])
def test_a_changed_dataset_is_noticed(root, lengths):
    reel.save_view(reel.open_dataset(root).select([1]), "good")
    shutil.rmtree(root / "meta")
    write_dataset(root, lengths)
    with pytest.raises(StaleDatasetError, match="'good' was saved when there were 5 episodes"):
        reel.open_dataset(root, view="good")


def test_a_relabelled_dataset_is_noticed(root):
    reel.save_view(reel.open_dataset(root).select([1]), "good")
    reel.edit_dataset(root).set_task([3], "fold the towel").apply()
    with pytest.raises(StaleDatasetError, match="relabelled since"):
        reel.open_dataset(root, view="good")


def record(root, speeds):
    """Record an episode of four frames for each speed."""
    features = {"action": reel.Feature("float32", (2,)), "mode": reel.Feature("int64", (1,))}
    with reel.create_dataset(root, fps=10, features=features) as recorder:
        for speed in speeds:
            for i in range(4):
                recorder.add_frame(
                    {"action": np.array([i * speed, 1], np.float32), "mode": 2}, task="go"
                )
            recorder.save_episode()


def write_with_stats(root, speeds):
    """Write an episode of v2.1 for each speed, and the statistics of its actions."""
    write_dataset_v2(root, [4] * len(speeds))
    entries = [
        {
            "episode_index": i,
            "stats": {"action": {key: [v] for key in ("min", "max", "mean", "std")}},
        }
        for i, v in enumerate(speeds)
    ]
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (root / "meta" / "episodes_stats.jsonl").write_text(lines)


def test_an_episode_recorded_anew_is_noticed_at_an_equal_length(tmp_path):
    root = tmp_path / "arm"
    write_with_stats(root, [1, 2, 3])
    reel.save_view(reel.open_dataset(root).select([0, 1]), "good")
    write_with_stats(root, [1, 2, 5])  # An episode that the view does not have.
    assert numbers(root) == [0, 1]
    write_with_stats(root, [1, 5, 3])
    with pytest.raises(StaleDatasetError, match=r"recorded anew since .* differ in 'action'"):
        reel.open_dataset(root, view="good")


def test_an_episode_that_was_deleted_and_recorded_again_is_noticed(tmp_path):
    root = tmp_path / "arm"
    record(root, [1, 2])
    reel.save_view(reel.open_dataset(root).select([0, 1]), "good")
    reel.edit_dataset(root).delete([0]).apply()
    with reel.resume_dataset(root) as recorder:
        for i in range(4):
            recorder.add_frame({"action": np.array([i, 1], np.float32), "mode": 2}, task="go")
        recorder.save_episode()
    with pytest.raises(StaleDatasetError, match="recorded anew"):
        reel.open_dataset(root, view="good")


def test_values_that_stay_are_known_by_whatever_else_changes(tmp_path):
    root = tmp_path / "arm"
    record(root, [1])
    reel.save_view(reel.open_dataset(root), "good")
    reel.edit_dataset(root).rename("mode", "gripper").apply()
    assert numbers(root) == [0]
    with reel.resume_dataset(root) as recorder:
        recorder.add_frame({"action": np.ones(2, np.float32), "gripper": 2}, task="go")
        recorder.save_episode()
    assert numbers(root) == [0]
    for path in root.rglob("*"):
        os.utime(path, (1, 1))
    shutil.copytree(root, tmp_path / "copy")
    assert numbers(tmp_path / "copy") == [0]


@pytest.mark.parametrize("version", ["v2.0", "v2.1"])
def test_without_statistics_the_sizes_of_data_files_tell(tmp_path, version):
    root = tmp_path / "arm"
    write_dataset_v2(root, LENGTHS, version=version)
    reel.save_view(reel.open_dataset(root).select([1, 2]), "good")
    write_dataset_v2(root, [*LENGTHS, 2], version=version)
    assert numbers(root) == [1, 2]
    path = root / "data/chunk-000/episode_000002.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, compression="none")
    with pytest.raises(StaleDatasetError, match="differ in 'sizes of data files'"):
        reel.open_dataset(root, view="good")


def test_a_view_saved_without_digests_of_values_is_opened(tmp_path):
    root = tmp_path / "arm"
    write_with_stats(root, [1, 2])
    path = reel.save_view(reel.open_dataset(root).select([1]), "good")
    content = json.loads(path.read_text())
    assert content["saved_from"].pop("values").keys() == {"action"}
    path.write_text(json.dumps(content))
    assert numbers(root) == [1]


def test_a_view_that_does_not_exist_names_those_that_do(root):
    with pytest.raises(ViewError, match="no saved view 'good': there are none"):
        reel.open_dataset(root, view="good")
    reel.save_view(reel.open_dataset(root), "all")
    with pytest.raises(ViewError, match="no saved view 'good': there are 'all'"):
        reel.open_dataset(root, view="good")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "x" * 101])
def test_a_name_is_no_path(root, name):
    with pytest.raises(ViewError, match="is not a name for a view"):
        reel.save_view(reel.open_dataset(root), name)
    with pytest.raises(ViewError, match="is not a name for a view"):
        reel.open_dataset(root, view=name)


def test_no_view_is_written_through_a_link(root, tmp_path):
    (tmp_path / "outside").mkdir()
    (root / ".roboreel").symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafePathError, match=r"'\.roboreel' is a symbolic link"):
        reel.save_view(reel.open_dataset(root), "good")
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"layout": 2},
        {"episodes": [[0, 2], [1, 3]]},
        {"episodes": [[2, 1]]},
        {"episodes": [[-1, 1]]},
        {"episodes": [0, 1]},
        {"episodes": [[0, 1 << 70]]},
        {"episodes": "all"},
        {"saved_from": None},
        {"saved_from": "all"},
        {"saved_from": {"num_episodes": 5, "digest": "", "values": 3}},
    ],
)
def test_a_file_that_makes_no_sense_is_refused(root, change):
    path = reel.save_view(reel.open_dataset(root), "good")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ViewError, match=r"Not a saved view .*good\.json"):
        reel.open_dataset(root, view="good")


def test_a_huge_span_is_refused_without_being_counted_out(root):
    path = reel.save_view(reel.open_dataset(root), "good")
    path.write_text(json.dumps({**json.loads(path.read_text()), "episodes": [[0, 1 << 62]]}))
    with pytest.raises(StaleDatasetError):
        reel.open_dataset(root, view="good")
