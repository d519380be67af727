"""Edits: what stays is unchanged to the last bit, all else is counted anew, and undo brings it back."""

from __future__ import annotations

import json
import shutil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roboreel as reel
from roboreel.commit import list_changes, undo_change
from roboreel.edit import edit_dataset
from roboreel.edit.recipe import Recipe, whole_episodes
from roboreel.errors import (
    DatasetInUseError,
    EditError,
    EpisodeNotFoundError,
    FeatureNotFoundError,
    FolderTakenError,
    StaleDatasetError,
    TaskNotFoundError,
)
from tests.clean import FRONT, LENGTHS, TASKS, VERSIONS, WRIST, clean_dataset
from tests.commit.test_undo import tree_hash
from tests.edit.edited import Expected, check_edited, row_groups

WHOLE = [Expected(e, 0, n) for e, n in enumerate(LENGTHS)]


@st.composite
def recipes(draw):
    """Return operations on the clean dataset, and the episodes that they should leave."""
    operations: list[tuple[Any, ...]] = []
    expected: list[Expected] = []
    for episode, length in enumerate(LENGTHS):
        fate = draw(st.sampled_from(["keep", "keep", "delete", "trim", "cut", "task"]))
        if fate == "delete" and (expected or episode < len(LENGTHS) - 1):
            operations.append(("delete", [episode]))
            continue
        start = draw(st.integers(0, length // 2 - 1))
        stop = draw(st.integers(length // 2 + 1, length))
        cut = draw(st.integers(1, length - 1))
        if fate == "trim":
            operations.append(("trim", episode, start, stop))
            expected.append(Expected(episode, start, stop))
        elif fate == "cut" and 0 < cut < length:
            operations.append(("cut", episode, cut))
            expected += [Expected(episode, 0, cut), Expected(episode, cut, length)]
        elif fate == "task":
            task = draw(st.sampled_from([*TASKS, "fold the cloth", "stack the bowls"]))
            operations.append(("task", episode, task))
            expected.append(Expected(episode, 0, length, task))
        else:
            expected.append(Expected(episode, 0, length))
    return operations, expected


def carried(edit, operations):
    for name, *given_ in operations:
        if name == "delete":
            edit = edit.delete(given_[0])
        elif name == "trim":
            edit = edit.trim(given_[0], start=given_[1], stop=given_[2])
        elif name == "cut":
            edit = edit.cut(given_[0], at=given_[1])
        else:
            edit = edit.set_task([given_[0]], given_[1])
    return edit


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("store", ["video", "image"])
def test_what_stays_is_unchanged_and_undo_gives_the_same_bytes(version, store, tmp_path):
    clean = clean_dataset(tmp_path / "clean", version, store=store)
    place = iter(range(10**6))

    @settings(max_examples=3, deadline=None)
    @given(recipe=recipes())
    def edits(recipe):
        operations, expected = recipe
        if not expected:
            return
        root = tmp_path / f"d{next(place)}"
        shutil.copytree(clean, root)
        before = tree_hash(root)
        edit = carried(edit_dataset(root), operations)
        edit.apply()
        check_edited(clean, root, expected)
        assert row_groups(root) == [one.stop - one.start for one in expected]
        if operations:
            undo_change(root)
        assert tree_hash(root) == before
        carried(edit_dataset(root), operations).apply(out=tmp_path / "out")
        check_edited(clean, tmp_path / "out", expected)
        assert tree_hash(root) == before
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "out")

    edits()


@pytest.mark.parametrize("version", VERSIONS)
def test_deleted_episodes_leave_and_the_rest_moves_up(version, tmp_path):
    root = clean_dataset(tmp_path / "d", version)
    clean = clean_dataset(tmp_path / "clean", version)
    plan = edit_dataset(root).delete([1, 4]).plan()
    assert {one.how for one in plan.files} <= {"kept", "linked", "rewritten"}
    assert "nothing is encoded again" in str(plan)
    plan.apply()
    check_edited(clean, root, [WHOLE[e] for e in (0, 2, 3, 5)])
    info = json.loads((root / "meta/info.json").read_text())
    assert (info["total_episodes"], info["total_frames"]) == (4, 76)
    assert info["splits"] == {"train": "0:4"}
    assert [change.command for change in list_changes(root)] == ["edit"]


def test_a_video_that_no_episode_needs_leaves_and_comes_back(tmp_path):
    root = clean_dataset(tmp_path / "d")
    before = tree_hash(root)
    edit_dataset(root).delete([2, 3]).apply()
    assert not list((root / "videos").rglob("file-001.mp4"))
    assert not list((root / "data").rglob("file-001.parquet"))
    undo_change(root)
    assert tree_hash(root) == before


def test_kept_files_are_not_written(tmp_path):
    root = clean_dataset(tmp_path / "d")
    marks = {p: p.stat().st_mtime_ns for p in root.rglob("*.mp4")}
    first = root / "data/chunk-000/file-000.parquet"
    mark = first.stat().st_mtime_ns
    edit_dataset(root).delete([5]).apply()
    assert first.stat().st_mtime_ns == mark
    assert all(path.stat().st_mtime_ns == when for path, when in marks.items())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_task_that_loses_its_last_episode_leaves_the_table(version, tmp_path):
    root = clean_dataset(tmp_path / "d", version)
    clean = clean_dataset(tmp_path / "clean", version)
    edit_dataset(root).delete([0, 3]).apply()  # the episodes of "pick the cube"
    dataset = reel.open_dataset(root)
    assert dict(dataset.manifest.tasks) == {0: "open the drawer", 1: "wipe the table"}
    check_edited(clean, root, [WHOLE[e] for e in (1, 2, 4, 5)])


def test_tasks_are_replaced_where_rows_have_them(tmp_path):
    root = clean_dataset(tmp_path / "d")
    edit_dataset(root).replace_task("open the drawer", "close the drawer").apply()
    dataset = reel.open_dataset(root)
    assert dict(dataset.manifest.tasks) == {
        0: "pick the cube",
        1: "wipe the table",
        2: "close the drawer",
    }
    assert dataset.episodes[3].tasks == ("pick the cube", "close the drawer")
    assert dataset.episodes[3]["task"][-1] == "close the drawer"
    assert dataset.episodes[2]["task"][0] == "wipe the table"
    with pytest.raises(TaskNotFoundError):
        edit_dataset(root).replace_task("no such task", "x")


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_of_episodes_are_set_and_kept(version, tmp_path):
    root = clean_dataset(tmp_path / "d", version)
    before = tree_hash(root)
    edit_dataset(root).set([0, 2], {"success": True}).set(None, {"operator": "Ann"}).apply()
    edit_dataset(root).delete([1]).set([3], {"success": False}).apply()
    metadata = reel.open_dataset(root).episodes.metadata
    assert list(metadata["success"]) == [True, True, False, None, None]
    assert list(metadata["operator"]) == ["Ann"] * 5
    edit_dataset(root).keep(where="success").apply()
    assert reel.open_dataset(root).episodes.lengths.tolist() == [LENGTHS[0], LENGTHS[2]]
    with pytest.raises(EditError, match="but this column holds"):
        edit_dataset(root).set([0], {"success": "yes"})
    with pytest.raises(EditError, match="LeRobot's own"):
        edit_dataset(root).set([0], {"length": 3})
    for _ in range(3):
        undo_change(root)
    assert tree_hash(root) == before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("store", ["video", "image"])
def test_features_are_renamed_and_removed(version, store, tmp_path):
    root = clean_dataset(tmp_path / "d", version, store=store)
    clean = clean_dataset(tmp_path / "clean", version, store=store)
    before = tree_hash(root)
    new = "observation.images.top"
    edit = edit_dataset(root).rename(FRONT, new).remove("observation.pose").rename("action", "act")
    edit.apply()
    names = {FRONT: new, "observation.pose": None, "action": "act"}
    check_edited(clean, root, WHOLE, names=names)
    described = pq.read_schema(next((root / "data").rglob("*.parquet"))).metadata[b"huggingface"]
    features = json.loads(described)["info"]["features"]
    assert "act" in features
    assert not {"action", "observation.pose"} & set(features)
    assert FRONT not in (root / "meta/info.json").read_text()
    undo_change(root)
    assert tree_hash(root) == before


def test_removing_a_camera_leaves_the_rows_alone(tmp_path):
    root = clean_dataset(tmp_path / "d")
    clean = clean_dataset(tmp_path / "clean")
    plan = edit_dataset(root).remove(WRIST).plan()
    assert {one.how for one in plan.files} == {"kept"}
    plan.apply()
    assert not (root / "videos" / WRIST).exists()
    check_edited(clean, root, WHOLE, names={WRIST: None})


def test_names_that_cannot_be_are_refused(tmp_path):
    root = clean_dataset(tmp_path / "d")
    edit = edit_dataset(root)
    with pytest.raises(FeatureNotFoundError, match="no feature 'nothing'"):
        edit.rename("nothing", "x")
    with pytest.raises(EditError, match="is taken"):
        edit.rename("action", "observation.state")
    with pytest.raises(EditError, match="counts frames"):
        edit.remove("timestamp")
    for name in ("a/b", "..", "", "a\nb"):
        with pytest.raises(EditError):
            edit.rename("action", name)
    with pytest.raises(EpisodeNotFoundError, match="Episode 6 does not exist"):
        edit.delete([6])
    with pytest.raises(EditError, match="No episode would stay"):
        edit.delete(range(6))


def test_what_is_unknown_to_us_stays(tmp_path):
    root = clean_dataset(tmp_path / "d")
    for path in (root / "data").rglob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.append_column("torque", pa.array(np.arange(len(table)) * 0.5)), path)
    info = root / "meta/info.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), "tools": [{"name": "say"}]}))
    (root / "meta/modality.json").write_text(
        json.dumps({"video": {"front": {"original_key": FRONT}}, "state": {"arm": {"start": 0}}})
    )
    (root / "README.md").write_text("about")
    out = tmp_path / "out"
    edit_dataset(root).delete([0]).rename(FRONT, "observation.images.top").apply(out=out)
    table = pq.read_table(out / "data/chunk-000/file-000.parquet")
    assert table.column("torque").to_pylist() == [0.5 * i for i in range(20, 32)]
    assert json.loads((out / "meta/info.json").read_text())["tools"] == [{"name": "say"}]
    said = json.loads((out / "meta/modality.json").read_text())
    assert said["video"]["front"]["original_key"] == "observation.images.top"
    assert (out / "README.md").read_text() == "about"


def test_several_splits_move_with_their_episodes(tmp_path):
    root = clean_dataset(tmp_path / "d")
    info = root / "meta/info.json"
    splits = {"train": "0:4", "val": "4:6"}
    info.write_text(json.dumps({**json.loads(info.read_text()), "splits": splits}))
    edit_dataset(root).delete([1]).cut(4, at=3).apply()
    assert json.loads(info.read_text())["splits"] == {"train": "0:3", "val": "3:6"}


def test_measured_times_start_at_zero_again(tmp_path):
    root = clean_dataset(tmp_path / "d", store="image")
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    measured = np.arange(20) / 30 + np.linspace(0, 0.01, 20)
    times = np.concatenate([measured, np.arange(12) / 30]).astype(np.float32)
    place = table.column_names.index("timestamp")
    pq.write_table(table.set_column(place, "timestamp", pa.array(times)), path)
    edit_dataset(root).trim(0, start=5).apply()
    assert np.allclose(reel.open_dataset(root).episodes[0]["timestamp"], measured[5:] - measured[5])


def test_a_plan_touches_no_file_and_is_applied_to_what_it_was_made_for(tmp_path):
    root = clean_dataset(tmp_path / "d")
    before = tree_hash(root)
    plan = edit_dataset(root).delete([1]).plan()
    assert "delete episode 1" in str(plan)
    assert plan.to_json()["episodes"] == 5
    assert tree_hash(root) == before
    assert not (root / ".recording").exists()
    (root / "meta/stats.json").write_text("{}")
    with pytest.raises(StaleDatasetError, match="plan it again"):
        plan.apply()


def test_a_recorder_that_is_open_excludes_edits(tmp_path):
    features = {"action": reel.Feature("float32", (2,))}
    with reel.create_dataset(tmp_path / "d", fps=10, features=features) as recorder:
        for _ in range(2):
            recorder.add_frame({"action": np.zeros(2, np.float32)}, task="wait")
            recorder.save_episode()
        with pytest.raises(DatasetInUseError):
            edit_dataset(tmp_path / "d").delete([0]).apply()


def test_an_edited_dataset_is_recorded_into_and_its_statistics_are_right(tmp_path):
    features = {"action": reel.Feature("float32", (2,))}
    with reel.create_dataset(tmp_path / "d", fps=10, features=features) as recorder:
        for episode in range(3):
            for i in range(4):
                recorder.add_frame({"action": np.full(2, episode + i, np.float32)}, task="wait")
            recorder.save_episode()
    edit_dataset(tmp_path / "d").set_task([1], "go").trim(2, stop=2).apply()
    with reel.resume_dataset(tmp_path / "d") as recorder:
        recorder.add_frame({"action": np.full(2, 9, np.float32)}, task="go")
        recorder.save_episode()
    dataset = reel.open_dataset(tmp_path / "d")
    computed = dataset.compute_stats()
    for name in ("action", "task_index", "index"):
        assert np.allclose(dataset.stats[name].mean, computed[name].mean)


def test_views_and_caches_notice(tmp_path):
    root = clean_dataset(tmp_path / "d")
    reel.save_view(reel.open_dataset(root).select([0, 1]), "first")
    edit_dataset(root).delete([0]).apply()
    with pytest.raises(StaleDatasetError):
        reel.open_dataset(root, view="first")


def test_a_folder_that_is_taken_is_refused(tmp_path):
    root = clean_dataset(tmp_path / "d")
    with pytest.raises(FolderTakenError):
        edit_dataset(root).delete([1]).apply(out=root)


def test_a_table_that_stores_numbers_where_others_store_lists_of_one_is_edited(tmp_path):
    root = clean_dataset(tmp_path / "d")
    table = min((root / "meta/episodes").rglob("*.parquet"))
    old, name = pq.read_table(table), "stats/episode_index/min"
    flat = pa.array([value[0] for value in old[name].to_pylist()], pa.float64())
    pq.write_table(old.set_column(old.column_names.index(name), name, flat), table)
    edit_dataset(root).delete([0]).apply()
    assert pq.read_table(table)[name].to_pylist()[0] == 0.0
    assert reel.open_dataset(root).episodes[0].length == LENGTHS[1]


def test_idle_starts_and_ends_are_cut_off(tmp_path):
    features = {
        "action": reel.Feature("float32", (1,)),
        "next.reward": reel.Feature("float32", (1,)),
    }
    moves = [[0.0] * 8 + [1, 2, 3, 4] + [4.0] * 9, [0.0] * 6, list(map(float, range(7)))]
    with reel.create_dataset(tmp_path / "d", fps=10, features=features) as recorder:
        for values in moves:
            for i, value in enumerate(values):
                recorder.add_frame({"action": value, "next.reward": float(i)}, task="wait")
            recorder.save_episode()
    edit = edit_dataset(tmp_path / "d").trim_idle()
    assert edit.said == ("trim episode 0 to frames 5 to 14",)
    edit.apply()
    assert reel.open_dataset(tmp_path / "d").episodes.lengths.tolist() == [9, 6, 7]


class TestTheRecipe:
    """Operations on pieces, against a slow version that marks every frame."""

    LENGTHS = (5, 3, 4)

    @settings(max_examples=60)
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("delete"), st.integers(0, 2)),
                st.tuples(st.just("trim"), st.integers(0, 2), st.integers(0, 4), st.integers(1, 5)),
                st.tuples(st.just("cut"), st.integers(0, 2), st.integers(0, 5)),
            ),
            max_size=6,
        )
    )
    def test_pieces_are_the_runs_of_frames_that_stay(self, operations):
        recipe = Recipe(whole_episodes(self.LENGTHS))
        frames = {e: set(range(n)) for e, n in enumerate(self.LENGTHS)}
        cuts: dict[int, set[int]] = {e: set() for e in frames}
        for name, episode, *at in operations:
            try:
                if name == "delete":
                    recipe, left = recipe.without([episode]), set()
                elif name == "trim":
                    recipe = recipe.trimmed({episode: (at[0], at[1])})
                    left = frames[episode] & set(range(*at))
                else:
                    recipe, left = recipe.cut(episode, at[0]), frames[episode]
                    cuts[episode].add(at[0])
            except EditError:
                continue
            frames[episode] = left
        runs: list[list[int]] = []
        for episode, kept in frames.items():
            for frame in sorted(kept):
                if (
                    runs
                    and runs[-1][0] == episode
                    and runs[-1][2] == frame
                    and frame not in cuts[episode]
                ):
                    runs[-1][2] = frame + 1
                else:
                    runs.append([episode, frame, frame + 1])
        assert [[p.episode, p.start, p.stop] for p in recipe.pieces] == runs

    def test_features_are_renamed_through_each_other(self):
        recipe = Recipe(whole_episodes([3])).renamed({"a": "b"}).renamed({"b": "c"})
        assert recipe.names == ({"a": "c"},)
        assert recipe.renamed({"c": "a"}).names == ({},)
        assert recipe.renamed({"c": None}).names == ({"a": None},)
