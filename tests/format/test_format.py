"""The format layer: every variant of a LeRobot folder, as a Manifest."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roboreel as reel
from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    EpisodeNotFoundError,
    MetadataError,
    NotADatasetError,
    UnsafePathError,
    UnsupportedVersionError,
)
from roboreel.format import read_manifest, write_manifest
from roboreel.format.features import feature_from_json, feature_to_json
from roboreel.format.statistics import read_episode_stats, read_stats
from roboreel.format.video_info import encoding_of, with_video_info
from roboreel.schema import Depth, Feature
from roboreel.stats import FeatureStats
from roboreel.video.encoding import Encoding
from tests.factory import (
    NUMBERS,
    SHARED,
    TASKS,
    edit_info,
    make_manifest,
    needs_shared,
    write_dataset,
    write_dataset_v2,
)

VIDEO = {**NUMBERS, "observation.images.front": Feature("video", (8, 12, 3))}


@needs_shared
@pytest.mark.parametrize("name", ["lerobot_v30_video", "lerobot_v30_image", "lerobot_v30_numeric"])
def test_what_lerobot_wrote_opens_with_its_own_numbers(name):
    dataset = reel.open_dataset(SHARED / name)
    info = json.loads((SHARED / name / "meta" / "info.json").read_text())
    assert (len(dataset), len(dataset.episodes)) == (info["total_frames"], info["total_episodes"])
    assert dataset.fps == info["fps"]
    assert dataset.tasks == {0: "pick the red cube", 1: "open the drawer"}
    assert [(e.start, e.stop) for e in dataset.episodes] == [(0, 30), (30, 75), (75, 95), (95, 132)]
    assert {k: (f.dtype, list(f.shape)) for k, f in dataset.features.items()} == {
        k: (f["dtype"], f["shape"]) for k, f in info["features"].items()
    }
    assert dataset.problems == ()
    expected = np.load(SHARED / name / "expected.npz")
    for row in sorted({int(key.split("/")[1]) for key in expected.files if key[:6] == "plain/"}):
        episode = dataset.episodes[int(expected[f"plain/{row}/episode_index"])]
        assert episode.start <= row < episode.stop
        assert str(expected[f"plain/{row}/task"]) in episode.tasks


@needs_shared
def test_a_real_v21_dataset_opens():
    dataset = reel.open_dataset(SHARED / "unitree_g1_v21")
    assert len(dataset) == 1461
    assert (dataset.features["action"].names or ())[0] == "kLeftShoulderPitch"
    assert dataset.episodes[3].start == 1093
    assert dataset.episodes[3].tasks == ("Pick up the yellow bottle on the table.",)
    assert dataset.manifest.data_files[2] == "data/chunk-000/episode_000002.parquet"
    stats = read_stats(dataset.manifest)
    assert stats["action"].shape == (26,)
    assert int(stats["action"].count.max()) == 1461


def test_opening_touches_metadata_alone(tmp_path):
    write_dataset(tmp_path, [3, 2, 4], features=VIDEO)
    (tmp_path / "data").rename(tmp_path / "away")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    dataset = reel.open_dataset(tmp_path)
    assert len(dataset) == 9
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_statistics_are_not_read_to_open(tmp_path):
    manifest = write_dataset(tmp_path, [3])
    (tmp_path / "meta" / "stats.json").write_text("broken")
    assert len(reel.open_dataset(tmp_path)) == 3
    with pytest.raises(MetadataError, match=r"line 1.*stats\.json"):
        read_stats(manifest)


names = st.text("abcxyz._/", min_size=1, max_size=12).filter(
    lambda name: ".." not in name and not name.startswith("/")
)
number_features = st.builds(
    Feature,
    dtype=st.sampled_from(["float32", "float64", "int64", "int32", "uint8", "bool", "string"]),
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple),
    names=st.none() | st.lists(st.text(max_size=5), min_size=1, max_size=4).map(tuple),
    extra=st.sampled_from([{}, {"fps": 30}, {"note": {"deep": [1, None]}}]),
)
depths = st.none() | st.builds(
    Depth,
    min_m=st.floats(0.01, 1),
    max_m=st.floats(2, 20),
    shift=st.floats(0, 5),
    log=st.booleans(),
    unit=st.sampled_from(["m", "mm"]),
)
camera_features = st.builds(
    Feature,
    dtype=st.sampled_from(["image", "video"]),
    shape=st.tuples(st.integers(16, 99), st.integers(16, 99), st.sampled_from([1, 3])),
    names=st.just(("height", "width", "channels")),
    depth=depths,
    extra=st.just({"info": {"video.fps": 30, "has_audio": False}}),
)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    features=st.dictionaries(names, number_features | camera_features, max_size=6),
    lengths=st.lists(st.integers(0, 50), max_size=9),
    fps=st.sampled_from([10, 30, 29.97]),
    episodes_per_file=st.integers(1, 4),
    robot_type=st.none() | st.text(max_size=5),
)
def test_a_manifest_survives_being_written_and_read(
    tmp_path_factory, features, lengths, fps, episodes_per_file, robot_type
):
    from dataclasses import replace

    root = tmp_path_factory.mktemp("dataset")
    manifest = make_manifest(
        root, lengths, features=features, fps=fps, episodes_per_file=episodes_per_file
    )
    manifest = replace(manifest, robot_type=robot_type, subtasks={0: "grasp"})
    write_manifest(manifest)
    again = read_manifest(root)
    assert replace(again, extra={}) == manifest
    assert again.problems == ()


@pytest.mark.parametrize("feature", [Feature("video", (4, 6, 3)), Feature("float32", (2, 3))])
def test_a_feature_entry_survives_a_round_trip(feature):
    again = feature_from_json("f", feature_to_json(feature))
    assert (again.dtype, again.shape, again.depth) == (feature.dtype, feature.shape, feature.depth)


def test_statistics_survive_being_written_and_read(tmp_path):
    manifest = make_manifest(tmp_path, [3, 4])
    stats = FeatureStats(
        min=np.zeros(2),
        max=np.ones(2),
        mean=np.full(2, 0.5),
        std=np.full(2, 0.1),
        count=np.asarray(7),
        quantiles={"q50": np.full(2, 0.4)},
    )
    write_manifest(manifest, stats={"action": stats}, episode_stats=[{"action": stats}] * 2)
    assert read_stats(manifest) == {"action": stats}
    assert list(read_episode_stats(manifest)) == [(0, {"action": stats}), (1, {"action": stats})]


def test_episodes_of_v21_have_no_quantiles_as_lerobot_writes_them(tmp_path):
    manifest = replace(make_manifest(tmp_path, [3, 4]), version="v2.1")
    ends = (np.zeros(2), np.ones(2), np.full(2, 0.5), np.full(2, 0.1))
    stats = FeatureStats(*ends, np.asarray(7), quantiles={"q50": np.full(2, 0.4)})
    write_manifest(manifest, episode_stats=[{"action": stats}] * 2)
    lines = (tmp_path / "meta" / "episodes_stats.jsonl").read_text().splitlines()
    keys = [list(json.loads(line)["stats"]["action"]) for line in lines]
    assert keys == [["min", "max", "mean", "std", "count"]] * 2


def test_statistics_that_an_episode_lacks_are_no_column_of_the_episode_table(tmp_path):
    manifest = make_manifest(tmp_path, [3, 4])
    ends = (np.zeros(2), np.ones(2), np.full(2, 0.5), np.full(2, 0.1))
    plain = FeatureStats(*ends, np.asarray(7), quantiles={})
    full = replace(plain, quantiles={"q50": np.full(2, 0.4)})
    write_manifest(manifest, episode_stats=[{"action": full, "state": full}, {"action": plain}])
    assert list(read_episode_stats(manifest)) == [(0, {"action": plain}), (1, {"action": plain})]


@pytest.mark.parametrize("column", ["task", "__index_level_0__"])
@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string()])
def test_tasks_are_named_in_either_column_and_found_by_their_number(tmp_path, column, text_type):
    write_dataset(tmp_path, [3])
    table = pa.table({"task_index": [7, 2], column: pa.array(["seventh", "second"], text_type)})
    pq.write_table(table, tmp_path / "meta" / "tasks.parquet")
    assert reel.open_dataset(tmp_path).tasks == {7: "seventh", 2: "second"}


def test_subtasks_are_read(tmp_path):
    write_dataset(tmp_path, [3])
    pq.write_table(
        pa.table({"subtask_index": [1, 0], "subtask": ["grasp", "reach"]}),
        tmp_path / "meta" / "subtasks.parquet",
    )
    dataset = reel.open_dataset(tmp_path)
    assert dataset.manifest.subtasks == {1: "grasp", 0: "reach"}
    (problem,) = dataset.problems
    assert (problem.code, problem.severity) == ("RR115", "warning")
    assert "The row at place 0 has subtask_index 1." in str(problem)


def test_tasks_whose_numbers_occur_twice_are_read_by_place_as_lerobot_reads_them(tmp_path):
    write_dataset(tmp_path, [3, 3])
    table = pa.table({"task_index": [0, 0, 1, 1], "task": [*TASKS.values(), "c", "d"]})
    pq.write_table(table, tmp_path / "meta" / "tasks.parquet")
    edit_info(tmp_path, total_tasks=4)
    dataset = reel.open_dataset(tmp_path)
    assert dataset.tasks == {0: TASKS[0], 1: TASKS[1], 2: "c", 3: "d"}
    assert dataset.read([0, 3], ["task"])["task"] == [TASKS[0], TASKS[1]]
    (problem,) = dataset.problems
    assert (problem.code, problem.severity) == ("RR115", "error")
    assert str(problem) == (
        "task_index 0 and 1 occur more than once. Rows are counted instead, as LeRobot does."
    )


def test_in_json_lines_the_last_text_of_a_number_counts_as_for_lerobot(tmp_path):
    write_dataset_v2(tmp_path, [3, 3])
    with (tmp_path / "meta" / "tasks.jsonl").open("a") as file:
        file.write('{"task_index": 0, "task": "another"}\n')
    dataset = reel.open_dataset(tmp_path)
    assert dataset.tasks == {0: "another", 1: TASKS[1]}
    problems = {found.code: found for found in dataset.problems}
    assert problems["RR115"].severity == "error"
    assert "The last text of a number counts" in str(problems["RR115"])


def test_a_task_that_an_episode_names_and_no_table_lists_is_a_problem(tmp_path):
    write_dataset(tmp_path, [3, 3])
    table = pa.table({"task_index": [0], "task": [TASKS[0]]})
    pq.write_table(table, tmp_path / "meta" / "tasks.parquet")
    edit_info(tmp_path, total_tasks=1)
    dataset = reel.open_dataset(tmp_path)
    (problem,) = dataset.problems
    assert (problem.code, problem.episode) == ("RR116", 1)
    with pytest.warns(RuntimeWarning, match="Episode 1 has task_index 1, which no task has"):
        assert dataset.read([0, 3], ["task"])["task"] == [TASKS[0], ""]


@pytest.mark.parametrize(
    ("given", "flat"),
    [
        (["a", "b"], ("a", "b")),
        ([["a", "b"]], ("a", "b")),
        ({"motors": ["a", "b"]}, ("a", "b")),
        ({"left": ["a"], "right": ["b"]}, ("a", "b")),
        ({"b": 1, "a": 0}, ("a", "b")),
        (None, None),
        ("a", ("a",)),
    ],
)
def test_names_are_flat_whatever_their_form(given, flat):
    assert feature_from_json("f", {"dtype": "float32", "shape": [2], "names": given}).names == flat


def test_what_is_said_of_a_video_is_what_lerobot_writes():
    camera = with_video_info(Feature("video", (48, 64, 3)), Encoding(), 30)
    assert feature_to_json(camera)["info"] == {
        "video.height": 48,
        "video.width": 64,
        "video.codec": "av1",
        "video.pix_fmt": "yuv420p",
        "video.is_depth_map": False,
        "video.fps": 30,
        "video.channels": 3,
        "has_audio": False,
        "video.g": 2,
        "video.crf": 30,
        "video.preset": 12,
        "video.fast_decode": 0,
        "video.video_backend": "pyav",
        "video.extra_options": {},
    }
    assert encoding_of(with_video_info(camera, Encoding("h264", crf=20), 29.97)).codec == "h264"


def test_depth_is_said_to_be_depth():
    camera = Feature("video", (48, 64, 1), depth=Depth(max_m=4.0))
    described = with_video_info(camera, encoding_of(camera), 30)
    info = feature_to_json(described)["info"]
    assert (info["video.codec"], info["video.pix_fmt"]) == ("hevc", "gray12le")
    assert (info["video.channels"], info["video.is_depth_map"]) == (1, True)
    assert (info["video.depth_max"], info["depth_unit"]) == (4.0, "m")
    assert feature_from_json("depth", feature_to_json(described)).depth == camera.depth


@pytest.mark.parametrize(
    "entry",
    [
        {"info": {"video.is_depth_map": True, "video.depth_max": 4.0, "video.use_log": False}},
        {"info": {"is_depth_map": True, "video.depth_max": 4.0, "video.use_log": False}},
        {"video_info": {"video.is_depth_map": True, "depth_max": 4.0, "use_log": 0}},
        {"is_depth_map": True, "info": {"video.depth_max": 4.0, "video.use_log": False}},
    ],
)
def test_depth_is_known_by_each_of_its_markers(entry):
    feature = feature_from_json("d", {"dtype": "video", "shape": [4, 6, 1], "names": None, **entry})
    assert feature.depth == Depth(max_m=4.0, log=False)


@pytest.mark.parametrize(
    ("shape", "axes", "stored"),
    [
        ([4, 6, 3], ["height", "width", "channels"], (4, 6, 3)),
        ([3, 4, 6], ["channels", "height", "width"], (4, 6, 3)),
        ([3, 4, 6], None, (4, 6, 3)),
        ([3, 4, 3], ["height", "width", "channel"], (3, 4, 3)),
        ([4, 6], None, (4, 6, 1)),
    ],
)
def test_a_camera_has_height_width_channels_however_it_was_written(shape, axes, stored):
    entry = {"dtype": "image", "shape": shape, "names": axes}
    assert feature_from_json("camera", entry).shape == stored


def test_language_int_bool_string_and_nd_features_are_typed():
    kinds = {
        dtype: feature_from_json("f", {"dtype": dtype, "shape": [1], "names": None}).kind
        for dtype in ["language", "int16", "bool", "string", "float64"]
    }
    assert kinds == {
        "language": "language",
        "int16": "number",
        "bool": "number",
        "string": "text",
        "float64": "number",
    }


def test_a_feature_that_nobody_knows_is_left_out_and_said(tmp_path):
    write_dataset(tmp_path, [3])
    info = json.loads((tmp_path / "meta" / "info.json").read_text())
    edit_info(
        tmp_path,
        features={**info["features"], "odd": {"dtype": "quaternion", "shape": [4], "names": None}},
    )
    dataset = reel.open_dataset(tmp_path)
    assert "odd" not in dataset.features
    assert any(
        "'odd' has the unknown dtype 'quaternion'" in str(problem) for problem in dataset.problems
    )


def test_unknown_keys_of_info_are_kept(tmp_path):
    write_dataset(tmp_path, [3])
    edit_info(tmp_path, tools=["gripper"], total_chunks=4)
    manifest = read_manifest(tmp_path)
    assert manifest.extra["tools"] == ["gripper"]
    write_manifest(manifest)
    assert json.loads((tmp_path / "meta" / "info.json").read_text())["tools"] == ["gripper"]


def test_modality_json_is_left_alone(tmp_path):
    write_dataset_v2(tmp_path, [3, 2])
    (tmp_path / "meta" / "modality.json").write_text("{}")
    assert len(reel.open_dataset(tmp_path)) == 5


@pytest.mark.parametrize("version", ["v2.0", "v2.1"])
def test_blank_lines_and_unknown_fields_in_jsonl_are_fine(tmp_path, version):
    write_dataset_v2(tmp_path, [3, 2, 4], version=version)
    for name in ("episodes.jsonl", "tasks.jsonl"):
        path = tmp_path / "meta" / name
        lines = path.read_text().splitlines()
        path.write_text("\n\n" + "\n  \n".join(lines) + "\n\n")
    dataset = reel.open_dataset(tmp_path)
    assert [(e.number, e.start, e.stop, e.tasks) for e in dataset.episodes] == [
        (0, 0, 3, (TASKS[0],)),
        (1, 3, 5, (TASKS[1],)),
        (2, 5, 9, (TASKS[0],)),
    ]


def test_odd_jsonl_values_take_the_careful_path(tmp_path):
    write_dataset_v2(tmp_path, [3, 2])
    (tmp_path / "meta" / "episodes.jsonl").write_text(
        '{"episode_index": 1, "tasks": "one", "length": 2.0, "more": {"a": 1}}\n'
        '{"episode_index": 0, "tasks": null, "length": 3, "more": 5}\n'
    )
    dataset = reel.open_dataset(tmp_path)
    assert [(e.number, e.length, e.tasks) for e in dataset.episodes] == [
        (0, 3, ()),
        (1, 2, ("one",)),
    ]


def test_a_bad_jsonl_line_is_named(tmp_path):
    write_dataset_v2(tmp_path, [3, 2])
    path = tmp_path / "meta" / "episodes.jsonl"
    path.write_text(path.read_text() + "\n{broken\n")
    with pytest.raises(CorruptFileError, match=r"Line 4 is not JSON.*episodes\.jsonl"):
        reel.open_dataset(tmp_path)
    path.write_text('{"episode_index": 0, "tasks": []}\n')
    with pytest.raises(CorruptFileError, match="Line 1 has length=None"):
        reel.open_dataset(tmp_path)


def test_missing_tasks_and_statistics_are_fine(tmp_path):
    write_dataset(tmp_path, [3])
    (tmp_path / "meta" / "tasks.parquet").unlink()
    dataset = reel.open_dataset(tmp_path)
    assert dataset.tasks == {}
    assert read_stats(dataset.manifest) == {}


def test_custom_templates_spell_the_paths(tmp_path):
    write_dataset(tmp_path, [3, 2, 4], features=VIDEO)
    edit_info(
        tmp_path,
        data_path="tables/{chunk_index}-{file_index:05d}.parquet",
        video_path="film/{video_key}_{chunk_index:02d}_{file_index}.mp4",
    )
    manifest = read_manifest(tmp_path)
    assert manifest.data_files[1] == "tables/0-00001.parquet"
    assert manifest.video_files["observation.images.front"][1] == (
        "film/observation.images.front_00_1.mp4"
    )


@pytest.mark.parametrize(
    "template",
    [
        "data/{episode_number}.parquet",
        "data/{chunk_index.__class__}.parquet",
        "data/{chunk_index[0]}.parquet",
        "data/{chunk_index!r}.parquet",
        "data/{chunk_index:>999999999d}.parquet",
        "data/{chunk_index:0999999999d}.parquet",
        "data/{}.parquet",
        "data/{chunk_index",
    ],
)
def test_a_template_with_unknown_fields_is_refused(tmp_path, template):
    write_dataset(tmp_path, [3])
    edit_info(tmp_path, data_path=template)
    with pytest.raises(MetadataError, match=r"template.*info\.json"):
        reel.open_dataset(tmp_path)


@pytest.mark.parametrize(
    "template",
    [
        "../{chunk_index}/{file_index}.parquet",
        "/etc/{chunk_index}-{file_index}",
        "a/../../{chunk_index}-{file_index}",
        "C:\\data\\{chunk_index}-{file_index}",
        "\\\\host\\{chunk_index}-{file_index}",
        "",
    ],
)
def test_a_template_that_leaves_the_folder_is_refused(tmp_path, template):
    write_dataset(tmp_path, [3])
    edit_info(tmp_path, data_path=template)
    with pytest.raises(UnsafePathError, match="out of the dataset"):
        reel.open_dataset(tmp_path)


def test_a_camera_name_that_leaves_the_folder_is_refused(tmp_path):
    camera = "../../outside"
    write_dataset_v2(tmp_path, [3], features={camera: Feature("video", (4, 4, 3))})
    with pytest.raises(UnsafePathError, match="out of the dataset"):
        reel.open_dataset(tmp_path)


def test_files_that_are_symlinks_are_fine(tmp_path):
    write_dataset(tmp_path / "blobs", [3, 2])
    link = tmp_path / "snapshot"
    for path in (tmp_path / "blobs").rglob("*"):
        if path.is_file():
            target = link / path.relative_to(tmp_path / "blobs")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(os.path.relpath(path, target.parent))
    assert len(reel.open_dataset(link)) == 5


def test_episode_files_may_differ_in_column_order_and_come_in_any_order(tmp_path):
    write_dataset(tmp_path, [3, 2, 4, 1], features=VIDEO)
    path = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(2, 2), path)
    later = path.with_name("file-001.parquet")
    pq.write_table(table.slice(0, 2).select(list(reversed(table.column_names))), later)
    dataset = reel.open_dataset(tmp_path)
    assert [(e.number, e.start, e.stop) for e in dataset.episodes] == [
        (0, 0, 3),
        (1, 3, 5),
        (2, 5, 9),
        (3, 9, 10),
    ]
    assert dataset.episodes[3].tasks == (TASKS[1],)
    assert dataset.manifest.episodes.data_row.tolist() == [0, 3, 0, 4]


def test_data_and_cameras_lie_in_different_files(tmp_path):
    write_dataset(tmp_path, [3, 2, 4], features=VIDEO)
    path = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    camera = "videos/observation.images.front"
    for field, values in (("chunk_index", [2, 0, 2]), ("file_index", [7, 1, 7])):
        name = f"{camera}/{field}"
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    pq.write_table(table, path)
    manifest = read_manifest(tmp_path)
    clips = manifest.episodes.clips["observation.images.front"]
    files = manifest.video_files["observation.images.front"]
    assert [files[file] for file in clips.file] == [
        "videos/observation.images.front/chunk-002/file-007.mp4",
        "videos/observation.images.front/chunk-000/file-001.mp4",
        "videos/observation.images.front/chunk-002/file-007.mp4",
    ]
    assert manifest.episodes.data_file.tolist() == [0, 0, 1]


def test_rows_follow_the_stored_order_when_episodes_are_numbered_otherwise(tmp_path):
    write_dataset(tmp_path, [3, 2, 4], episodes_per_file=3)
    path = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    index = table.column_names.index("episode_index")
    pq.write_table(table.set_column(index, "episode_index", pa.array([2, 0, 5])), path)
    dataset = reel.open_dataset(tmp_path)
    assert [(e.number, e.start, e.stop) for e in dataset.episodes] == [
        (0, 3, 5),
        (2, 0, 3),
        (5, 5, 9),
    ]
    assert dataset.manifest.episodes.data_row.tolist() == [3, 0, 5]


def test_a_dataset_of_no_episodes_opens(tmp_path):
    write_dataset(tmp_path, [])
    dataset = reel.open_dataset(tmp_path)
    assert (len(dataset), list(dataset.episodes)) == (0, [])
    with pytest.raises(EpisodeNotFoundError, match="there are no episodes"):
        dataset.episodes[0]


def test_totals_that_do_not_add_up_are_listed_and_the_episodes_count(tmp_path):
    write_dataset(tmp_path, [3, 2])
    edit_info(tmp_path, total_frames=99, total_episodes=7)
    dataset = reel.open_dataset(tmp_path)
    assert len(dataset) == 5
    assert [(problem.code, str(problem)) for problem in dataset.problems] == [
        ("RR101", "info.json counts 7 episodes, the tables hold 2."),
        ("RR101", "info.json counts 99 frames, the tables hold 5."),
    ]


def test_an_episode_listed_twice_is_a_problem_and_counts_once(tmp_path):
    write_dataset_v2(tmp_path, [3, 2])
    path = tmp_path / "meta" / "episodes.jsonl"
    path.write_text(path.read_text() * 2)
    dataset = reel.open_dataset(tmp_path)
    assert len(dataset) == 5
    assert any("Episode 0 is listed more than once" in str(problem) for problem in dataset.problems)


def test_an_episode_that_does_not_exist_says_what_there_is(tmp_path):
    write_dataset(tmp_path, [3, 2])
    dataset = reel.open_dataset(tmp_path)
    assert dataset.episodes[-1].number == 1
    with pytest.raises(EpisodeNotFoundError, match=r"Episode 812 .* 2 episodes, 0 to 1, in '"):
        dataset.episodes[812]


def test_not_a_dataset_says_what_is_there(tmp_path):
    with pytest.raises(NotADatasetError, match="there is no such folder"):
        reel.open_dataset(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"it has no meta/info\.json"):
        reel.open_dataset(tmp_path)
    write_dataset(tmp_path / "owner" / "name", [1])
    with pytest.raises(NotADatasetError, match=f"do: {Path('owner', 'name')}"):
        reel.open_dataset(tmp_path)
    with pytest.raises(NotADatasetError, match="it is a file"):
        reel.open_dataset(tmp_path / "owner" / "name" / "meta" / "info.json")


@pytest.mark.parametrize("version", ["v1.6", "v4.0", "v2.2", "latest", 3])
def test_an_unsupported_version_is_named(tmp_path, version):
    write_dataset(tmp_path, [1])
    edit_info(tmp_path, codebase_version=version)
    if version == 3:
        assert len(reel.open_dataset(tmp_path)) == 1
        return
    with pytest.raises(UnsupportedVersionError, match=r"v2\.0, v2\.1 and v3\.0 are supported"):
        reel.open_dataset(tmp_path)


def test_broken_json_names_file_and_line(tmp_path):
    write_dataset(tmp_path, [1])
    (tmp_path / "meta" / "info.json").write_text('{\n  "fps": 30,\n  oops\n}')
    with pytest.raises(MetadataError, match=r"at line 3, column 3 of .*info\.json"):
        reel.open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fps": 0}, "fps is 0"),
        ({"fps": "fast"}, "fps is 'fast'"),
        ({"fps": 5e-324}, "fps is 5e-324: a number from 1e-6"),
        ({"features": None}, "'features' is missing, or not an object"),
        ({"data_path": None}, "data_path is None"),
        ({"chunks_size": 0}, "chunks_size is 0"),
    ],
)
def test_a_wrong_value_in_info_is_named(tmp_path, changes, message):
    write_dataset(tmp_path, [1])
    edit_info(tmp_path, **changes)
    with pytest.raises(MetadataError, match=message):
        reel.open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("length", pa.array(["a", "b"]), "holds string, not numbers"),
        ("length", pa.array([2**62, 1]), "has the impossible length"),
        ("episode_index", pa.array([None, 1], pa.int64()), "'episode_index' is missing"),
        ("length", pa.array([1.5, 2.0]), "'length' of the episode table holds fractions"),
    ],
)
def test_a_wrong_value_in_the_episode_table_is_named(tmp_path, name, values, message):
    write_dataset(tmp_path, [1, 2])
    path = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index(name), name, values), path)
    with pytest.raises((MetadataError, CorruptFileError), match=message):
        reel.open_dataset(tmp_path)


def test_data_files_that_do_not_divide_between_the_episodes_are_refused(tmp_path):
    write_dataset(tmp_path, [4, 5, 6], episodes_per_file=1)
    table = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    columns = pq.read_table(table).drop_columns(["data/chunk_index", "data/file_index"])
    pq.write_table(columns, table)
    assert len(reel.open_dataset(tmp_path)) == 15
    stray = tmp_path / "data/chunk-000/file-003.parquet"
    pq.write_table(pq.read_table(tmp_path / "data/chunk-000/file-000.parquet"), stray)
    with pytest.raises(MetadataError, match=r"4 data files do not divide between episodes"):
        reel.open_dataset(tmp_path)


@pytest.mark.parametrize("length", ["NaN", "Infinity", "1e300", "-1"])
def test_a_length_that_is_none_is_named(tmp_path, length):
    write_dataset_v2(tmp_path, [3])
    (tmp_path / "meta" / "episodes.jsonl").write_text(
        f'{{"episode_index": 0, "tasks": [], "length": {length}}}\n'
    )
    with pytest.raises((MetadataError, CorruptFileError), match="length"):
        reel.open_dataset(tmp_path)


def test_odd_values_in_info_are_read_around_or_named(tmp_path):
    write_dataset(tmp_path, [3])
    info = json.loads((tmp_path / "meta" / "info.json").read_text())
    info["features"]["huge"] = {"dtype": "float32", "shape": [2**40, 2**40], "names": None}
    edit_info(tmp_path, splits=["train"], features=info["features"])
    dataset = reel.open_dataset(tmp_path)
    assert "huge" not in dataset.features
    assert any("'huge' has the shape" in str(problem) for problem in dataset.problems)
    (tmp_path / "meta" / "info.json").write_text('{"fps": ' + "9" * 5000 + "}")
    with pytest.raises(MetadataError, match=r"info\.json"):
        reel.open_dataset(tmp_path)


def test_a_parquet_file_without_its_footer_is_named(tmp_path):
    write_dataset(tmp_path, [1, 2])
    path = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CorruptFileError, match=r"Not a readable Parquet file .*file-000"):
        reel.open_dataset(tmp_path)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_metadata_gives_an_error_of_ours_or_opens(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("damaged")
    if data.draw(st.booleans(), "v3"):
        write_dataset(root, [3, 2], features={"action": Feature("float32", (2,))})
    else:
        write_dataset_v2(root, [3, 2], features={"action": Feature("float32", (2,))})
    files = sorted(path for path in (root / "meta").rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files), "file")
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4), "changes")):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(raw[: data.draw(st.integers(0, len(raw)), "kept")]))
    try:
        dataset = reel.open_dataset(root)
        [episode.tasks for episode in dataset.episodes[:10]]
    except DatasetError:
        pass


def test_a_task_that_is_no_text_is_refused_with_its_line(tmp_path):
    write_dataset_v2(tmp_path, [3, 2], features={"action": Feature("float32", (2,))})
    path = tmp_path / "meta" / "episodes.jsonl"
    path.write_bytes(path.read_bytes().replace(b"open the", b"open \x80he"))
    with pytest.raises(CorruptFileError, match="Line 2 is not JSON"):
        reel.open_dataset(tmp_path)
