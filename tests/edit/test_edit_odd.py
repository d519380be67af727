"""Edits of datasets as laboratories have them: columns, files and wishes that nobody expected."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.commit import undo_change
from roboreel.edit import edit_dataset, plan_conversion, plan_merge, plan_split
from roboreel.edit.recipe_file import replay_operations
from roboreel.edit.rows import shifted_messages
from roboreel.errors import (
    CorruptFileError,
    EditError,
    EncodingError,
    FolderTakenError,
    StaleDatasetError,
)
from roboreel.video.mp4 import read_packet_table
from roboreel.video.splice import ImageSpan, restarts_at, splice_videos
from tests.clean import FRONT, NUM_ROWS, clean_dataset
from tests.commit.test_undo import tree_hash
from tests.factory import edit_info, write_dataset
from tests.surgery import damage_page
from tests.video_factory import decode_all, write_video


def add_column(path, name, kind=None):
    table = pq.read_table(path)
    values = pa.array(np.arange(len(table)) * 0.5, kind or pa.float32())
    pq.write_table(table.append_column(name, values), path)


def test_a_column_that_only_some_files_have_stays(tmp_path):
    write_dataset(tmp_path / "d", [4, 5, 6, 7])
    path = tmp_path / "d/data/chunk-000/file-001.parquet"
    add_column(path, "torque")
    edit_dataset(tmp_path / "d").delete([0]).apply()
    path = tmp_path / "d/data/chunk-000/file-003.parquet"
    assert pq.read_table(path)["torque"].to_pylist() == [0.5 * i for i in range(13)]
    write_dataset(tmp_path / "other", [3, 2])
    plan_merge([tmp_path / "other", tmp_path / "d"], tmp_path / "out").apply()
    tables = [pq.read_table(p) for p in sorted((tmp_path / "out/data").rglob("*.parquet"))]
    values = [v for table in tables for v in table["torque"].to_pylist()]
    assert values == [None] * (5 + 5) + [0.5 * i for i in range(13)]


def test_texts_that_no_file_can_hold_are_refused(tmp_path):
    write_dataset(tmp_path / "d", [4, 5])
    edit = edit_dataset(tmp_path / "d")
    with pytest.raises(EditError, match=r"A task cannot be .* half of a character"):
        edit.set_task([0], "lift \ud800")
    with pytest.raises(EditError, match=r"operator cannot be .* half of a character"):
        edit.set([0], {"operator": "\ud800"})
    with pytest.raises(EditError, match="cannot be set"):
        edit.set([0], {"\ud800": "Ann"})


def test_a_feature_does_not_take_the_name_of_a_column_that_nobody_listed(tmp_path):
    write_dataset(tmp_path / "d", [4, 5])
    add_column(tmp_path / "d/data/chunk-000/file-000.parquet", "torque")
    before = tree_hash(tmp_path / "d")
    with pytest.raises(EditError, match="Two columns would be called 'torque'"):
        edit_dataset(tmp_path / "d").rename("next.reward", "torque").apply()
    assert tree_hash(tmp_path / "d") == before


def test_a_split_that_is_not_all_stays_what_it_is(tmp_path):
    write_dataset(tmp_path / "d", [4, 5, 6, 7])
    edit_info(tmp_path / "d", splits={"train": "0:3"})
    edit_dataset(tmp_path / "d").delete([0]).apply()
    assert json.loads((tmp_path / "d/meta/info.json").read_text())["splits"] == {"train": "0:2"}


def test_files_of_deleted_episodes_do_not_come_along_under_any_name(tmp_path):
    write_dataset(tmp_path / "d", [4, 5, 6, 7])
    shutil.move(tmp_path / "d/data", tmp_path / "d/rows")
    said = json.loads((tmp_path / "d/meta/info.json").read_text())["data_path"]
    edit_info(tmp_path / "d", data_path=said.replace("data/", "rows/"))
    edit_dataset(tmp_path / "d").delete([0, 1]).apply(out=tmp_path / "out")
    files = [p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").glob("*/*/*")]
    assert [f for f in files if f.startswith("rows")] == ["rows/chunk-000/file-000.parquet"]
    assert reel.open_dataset(tmp_path / "out").episodes.lengths.tolist() == [6, 7]


def test_a_new_dataset_does_not_lie_inside_the_old_one(tmp_path):
    write_dataset(tmp_path / "d", [4, 5, 6, 7])
    with pytest.raises(EditError, match="inside the old one"):
        plan_split(tmp_path / "d", {"a": 0.5, "b": 0.5}, tmp_path / "d/parts")
    (tmp_path / "link").symlink_to(tmp_path / "d")
    with pytest.raises(EditError, match="inside the old one"):
        edit_dataset(tmp_path / "d").delete([0]).plan(out=tmp_path / "link/new")


def test_tables_of_tasks_and_subtasks_keep_what_is_unknown_to_us(tmp_path):
    write_dataset(tmp_path / "d", [4, 5, 6, 7])
    tasks = pq.read_table(tmp_path / "d/meta/tasks.parquet")
    tasks = tasks.append_column("vector", pa.array([[1.0]] * len(tasks)))
    pq.write_table(tasks, tmp_path / "d/meta/tasks.parquet")
    subtasks = pa.table({"subtask_index": [0, 1], "subtask": ["reach", "grasp"]})
    pq.write_table(subtasks, tmp_path / "d/meta/subtasks.parquet")
    edit_dataset(tmp_path / "d").delete([0]).apply(out=tmp_path / "out")
    assert pq.read_table(tmp_path / "out/meta/tasks.parquet").equals(tasks)
    plan_conversion(tmp_path / "d", "2.1", tmp_path / "v2").apply()
    plan_conversion(tmp_path / "v2", "3.0", tmp_path / "v3").apply()
    found = reel.open_dataset(tmp_path / "v3").manifest.subtasks
    assert dict(found) == {0: "reach", 1: "grasp"}


def test_elements_in_another_order_are_not_merged(tmp_path):
    write_dataset(tmp_path / "a", [4])
    write_dataset(tmp_path / "b", [4])
    features = json.loads((tmp_path / "b/meta/info.json").read_text())["features"]
    features["observation.state"]["names"] = ["z", "y", "x"]
    edit_info(tmp_path / "b", features=features)
    with pytest.raises(EditError, match="in another order: x, y, z in"):
        plan_merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), -1, "2"])
def test_moments_that_no_episode_has_are_refused(moment, tmp_path):
    write_dataset(tmp_path / "d", [4, 5])
    edit = edit_dataset(tmp_path / "d")
    for given in ({"start_s": moment}, {"stop": moment}):
        with pytest.raises(EditError, match="not a moment of an episode"):
            edit.trim(0, **given)
    with pytest.raises(EditError, match="whole numbers"):
        edit.cut(0, at=1.5)  # type: ignore[arg-type]


def test_what_an_edit_does_not_do_is_not_said(tmp_path):
    write_dataset(tmp_path / "d", [4, 5, 6])
    edit = edit_dataset(tmp_path / "d")
    assert edit.keep([0, 1], where="length > 4").said == ("keep episodes 0, 1 where length > 4",)
    with pytest.raises(EditError, match="this edit deletes it"):
        edit.delete([1]).trim(1, start=2)
    with pytest.raises(EditError, match="this edit trims it off"):
        edit.trim(2, start=4).cut(2, at=2)


def test_values_of_one_edit_share_a_type(tmp_path):
    write_dataset(tmp_path / "d", [4, 5])
    edit = edit_dataset(tmp_path / "d").set([0], {"grade": 1})
    for value in (2.5, "good", True):
        with pytest.raises(EditError, match="but this column holds"):
            edit.set([1], {"grade": value})
    edit_dataset(tmp_path / "d").set([0], {"grade": 1.5}).set([1], {"grade": 2}).apply()
    assert list(reel.open_dataset(tmp_path / "d").episodes.metadata["grade"]) == [1.5, 2.0]


@pytest.mark.parametrize(
    "operation",
    [
        {"do": "delete", "episodes": "3"},
        {"do": "delete", "episodes": 1},
        {"do": "trim", "episode": "a", "start": 1},
        {"do": "set", "episodes": [0], "columns": [1]},
        {"do": "resample", "fps": "a"},
        {"do": "keep", "where": 3},
        {"do": "set_task", "episodes": None, "task": "a"},
    ],
)
def test_values_of_the_wrong_type_in_a_recipe_are_refused(operation, tmp_path):
    write_dataset(tmp_path / "d", [4, 5])
    with pytest.raises(EditError, match="Operation 0 of the recipe"):
        replay_operations(edit_dataset(tmp_path / "d"), {"operations": [operation]})


def test_all_wordings_of_a_task_stay_with_every_part():
    def say(content, time_s, style="task_aug"):
        return {"content": content, "style": style, "role": "user", "timestamp": time_s}

    said = [say("pick", 0.0), say("grab", 0.0), say("b", 1.5, "subtask"), say("a", 0.0, "subtask")]
    start = shifted_messages(said, 0.0, 1.0)
    assert [m["content"] for m in start] == ["pick", "grab", "a"]
    later = shifted_messages(said, 2.0, 1.0)
    assert [(m["content"], m["timestamp"]) for m in later] == [("pick", 0), ("grab", 0), ("b", 0)]


def test_a_source_that_changes_while_it_is_copied_gives_no_dataset(tmp_path):
    root = clean_dataset(tmp_path / "d", store="image")

    def change(*_):
        edit_info(root, robot_type="other")

    with pytest.raises(StaleDatasetError):
        edit_dataset(root).delete([0]).apply(out=tmp_path / "out", on_progress=change)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_a_keyframe_of_an_open_gop_does_not_follow_other_packets(codec, tmp_path):
    kind = {"libx264": "x264-params", "libx265": "x265-params"}[codec]
    path = tmp_path / "a.mp4"
    write_video(path, range(18), codec, gop=6, bframes=2, options={kind: "open-gop=1"})
    table = read_packet_table(path)
    first = ImageSpan.of(path, table, 0, 18)
    inside = ImageSpan.of(path, table, 6, 18)
    assert inside.is_exact
    assert [restarts_at(path, table, int(s.needed[0])) for s in (first, inside)] == [True, False]
    splice_videos([inside, first], tmp_path / "b.mp4")
    whole = decode_all(path)
    assert np.array_equal(decode_all(tmp_path / "b.mp4"), np.concatenate([whole[6:], whole]))
    with pytest.raises(EncodingError, match="open GOP"):
        splice_videos([first, inside], tmp_path / "c.mp4")


def test_a_depth_camera_keeps_its_distances_when_it_is_encoded_again(tmp_path):
    features = {"observation.images.depth": reel.Feature("video", (32, 48, 1), depth=reel.Depth())}
    metres = np.linspace(0.5, 3, 32 * 48, dtype=np.float32).reshape(32, 48, 1)
    with reel.create_dataset(tmp_path / "d", fps=10, features=features) as recorder:
        for frame in range(4):
            recorder.add_frame({"observation.images.depth": metres + frame / 10}, task="look")
        recorder.save_episode()
    camera = "observation.images.depth"
    before = reel.open_dataset(tmp_path / "d").episodes[0][camera]
    edit = edit_dataset(tmp_path / "d").reencode(camera, reel.Encoding("hevc", keyframe_distance=1))
    edit.apply(out=tmp_path / "out")
    assert np.array_equal(reel.open_dataset(tmp_path / "out").episodes[0][camera], before)
    with pytest.raises(EditError, match="12 bits, which h264 does not offer"):
        edit_dataset(tmp_path / "d").reencode(camera, reel.Encoding("h264"))


def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path):
    edit = edit_dataset(clean_dataset(tmp_path / "d"))
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FolderTakenError):
        edit.delete([0]).apply(out=tmp_path / "link")
    with pytest.raises(EditError, match="impossible"):
        edit.resample(1e9)
    with pytest.raises(EditError, match="whole numbers, 1 to"):
        edit.resize(FRONT, 10**9, 2)
    with pytest.raises(EncodingError, match="even height and width, not 33x47"):
        edit.resize(FRONT, 33, 47).plan(tmp_path / "out")
    with pytest.raises(EditError, match="finite"):
        edit.set([0], {"score": float("nan")})


def test_values_that_are_not_numbers_survive_a_comparison(tmp_path):
    root = clean_dataset(tmp_path / "d", "v2.1")
    path = min((root / "data").rglob("*.parquet"))
    table = pq.read_table(path)
    place = table.column_names.index("action")
    actions = table["action"].to_pylist()
    actions[3][0] = float("nan")
    field = table.schema.field(place)
    pq.write_table(table.set_column(place, field, pa.array(actions, field.type)), path)
    plan = plan_conversion(root, "3.0", tmp_path / "out")
    plan.apply(verify=True)
    assert np.isnan(reel.open_dataset(tmp_path / "out").episodes[0]["action"]).sum() == 1


def test_statistics_as_lerobot_stores_them_are_made_anew_by_a_trim(tmp_path):
    root = _with_statistics_of_lerobot(clean_dataset(tmp_path / "arm"))
    edit_dataset(root).trim(2, start=5).apply()
    episode = reel.open_dataset(root).episodes[2]
    rows = _episode_table(root, 3)
    pose = episode.read(["observation.pose"])["observation.pose"].reshape(-1, 4)
    assert np.allclose(rows["stats/observation.pose/mean"][0].as_py(), pose.mean(axis=0))
    assert rows["stats/observation.pose/count"].to_pylist() == [[12], [25]]
    assert rows["stats/next.done/min"].to_pylist() == [[False], [False]]
    assert rows["stats/next.done/max"].to_pylist() == [[True], [True]]
    total = json.loads((root / "meta/stats.json").read_text())["observation.pose"]
    assert (total["count"], len(total["mean"])) == ([NUM_ROWS - 5], 4)


@pytest.mark.parametrize("out", [None, "new"])
def test_a_damaged_page_is_named_with_its_file_and_nothing_changes(out, tmp_path):
    root = clean_dataset(tmp_path / "arm")
    file = root / "data/chunk-000/file-001.parquet"
    damage_page(file, 0, "observation.state")
    before = tree_hash(root)
    with pytest.raises(CorruptFileError, match=r"file-001\.parquet"):
        edit_dataset(root).cut(2, at=5).apply(None if out is None else tmp_path / out)
    assert tree_hash(root) == before
    assert [path.name for path in tmp_path.iterdir()] == ["arm"]


def _with_statistics_of_lerobot(root):
    """Store statistics of matrices over their last axis, and extremes of booleans as booleans."""
    stats_path, pose = root / "meta/stats.json", "observation.pose"
    stats = json.loads(stats_path.read_text())
    stats[pose] = {key: v if key == "count" else v[0] for key, v in stats[pose].items()}
    stats_path.write_text(json.dumps(stats))
    for path in (root / "meta/episodes").rglob("*.parquet"):
        table = pq.read_table(path)
        for place, name in enumerate(table.column_names):
            values = table[name].to_pylist()
            if name.startswith(f"stats/{pose}/") and not name.endswith("count"):
                table = table.set_column(place, name, pa.array([value[0] for value in values]))
            elif name in ("stats/next.done/min", "stats/next.done/max"):
                flags = pa.array([[bool(v) for v in value] for value in values])
                table = table.set_column(place, name, flags)
        pq.write_table(table, path)
    return root


def _episode_table(root, data_file):
    """Return the episodes of a data file, as the table lists them."""
    table = pq.read_table(root / "meta/episodes")
    return table.filter(pc.equal(table["data/file_index"], data_file))


def test_files_that_change_in_place_get_new_names_in_the_order_of_their_rows(tmp_path):
    """Readers that go by the table find the old files until it is new; LeRobot goes by the names."""
    write_dataset(tmp_path / "d", [4, 5, 6, 7, 3, 2])
    before = reel.open_dataset(tmp_path / "d").read(range(27), ["index", "action"])
    edit_dataset(tmp_path / "d").set_task([2], "pour").apply()
    paths = sorted((tmp_path / "d/data").rglob("*.parquet"))
    assert [path.stem for path in paths] == ["file-000", "file-003", "file-004"]
    rows = [row for path in paths for row in pq.read_table(path)["index"].to_pylist()]
    assert rows == list(range(27))
    after = reel.open_dataset(tmp_path / "d").read(range(27), ["index", "action"])
    assert all(np.array_equal(after[name], before[name]) for name in ("index", "action"))
    undo_change(tmp_path / "d")
    paths = sorted((tmp_path / "d/data").rglob("*.parquet"))
    assert [path.stem for path in paths] == ["file-000", "file-001", "file-002"]
