"""Damage that once ended in an error of Python, pyarrow or NumPy: it is read, or refused by an error of ours."""

import json
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.errors import CorruptFileError, DatasetError, MetadataError
from roboreel.lerobot.language import parse_messages
from roboreel.record.journal import RowFormat
from roboreel.schema import Feature
from roboreel.shards.foreign import _read_metadata
from roboreel.video.salvage import whole_fragments
from tests.factory import edit_info, write_dataset, write_dataset_v2
from tests.mutation import exercise, make


@pytest.fixture
def root(tmp_path):
    write_dataset(tmp_path / "arm", [6, 4])
    return tmp_path / "arm"


def data_file(root: Path) -> Path:
    return next(root.glob("data/*/*.parquet"))


def change_feature(root: Path, name: str, **changes: Any) -> None:
    features = json.loads((root / "meta/info.json").read_text())["features"]
    edit_info(root, features=features | {name: features[name] | changes})


TABLES = ["data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet", "meta/tasks.parquet"]  # fmt: skip


@pytest.mark.parametrize("values", [None, "x"])
@pytest.mark.parametrize("name", TABLES)
def test_a_column_that_is_there_twice(root, name, values):
    table = pq.read_table(root / name)
    for place, column in enumerate(table.column_names):
        again = table.column(place) if values is None else pa.array([values] * len(table))
        pq.write_table(table.append_column(column, again), root / name)
        exercise("numeric-v3", root, report=False)


@pytest.mark.parametrize(
    "names", [[["a", ["b"]], "c"], {"a": {"b": ["c"]}}, [None], 7, [["x"] * 3]]
)
def test_names_that_are_nested_or_none(root, names):
    change_feature(root, "action", names=names)
    exercise("numeric-v3", root)


@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}")])
def test_names_that_are_nested_deeper_than_calls_of_functions(root, start, end):
    path = root / "meta/info.json"
    names = start * 600 + '"joint"' + end * 600
    change_feature(root, "action", names="HERE")
    path.write_text(path.read_text().replace('"HERE"', names))
    exercise("numeric-v3", root)
    assert reel.open_dataset(root).features["action"].names == ("joint",)


@pytest.mark.parametrize("depth", [600, 100_000])
def test_a_file_beside_the_metadata_that_is_nested_too_deep_stays_as_it_is(root, depth, tmp_path):
    text = '{"original_key":' * depth + '"action"' + "}" * depth
    (root / "meta/modality.json").write_text(text)
    reel.edit_dataset(root).rename("action", "act").apply(out=tmp_path / "out")
    assert (tmp_path / "out/meta/modality.json").read_text() == text


def test_records_of_a_journal_that_are_nested_too_deep_are_damaged_ones():
    rows = RowFormat({"task": Feature("string", (1,))})
    with pytest.raises(CorruptFileError, match="do not fit"):
        rows.unpack([b"[" * 100_000])


def test_a_call_of_a_tool_that_is_nested_too_deep_stays_a_text():
    message = {"role": "assistant", "tool_calls": "[" * 100_000}
    assert parse_messages([message]) == [message]


def test_metadata_of_a_cache_that_is_nested_too_deep_is_no_metadata(tmp_path):
    (tmp_path / "metadata.json").write_text("[" * 100_000)
    with pytest.raises(MetadataError, match="Not the metadata of a cache"):
        _read_metadata(tmp_path / "metadata.json")


@pytest.mark.parametrize(
    "dtype", ["float128", "object", "datetime64", "S5", "<f8,<i4", "", None, 3, ["f4"]]
)
def test_types_of_numpy_that_no_dataset_has(root, dtype):
    change_feature(root, "action", dtype=dtype)
    exercise("numeric-v3", root, report=False)


@pytest.mark.parametrize("kind", ["decimals", "bytes that are no text", "dates"])
def test_numbers_of_episodes_that_are_something_else(root, kind):
    table = pq.read_table(data_file(root))
    place = table.schema.get_field_index("episode_index")
    numbers = {
        "decimals": table["episode_index"].cast(pa.decimal128(20)),
        "bytes that are no text": pa.array([b"\xff\xfe"] * len(table)).view(pa.string()),
        "dates": pa.array([2**62] * len(table), pa.timestamp("us")),
    }[kind]
    table = table.set_column(place, "episode_index", numbers)
    pq.write_table(table, data_file(root), row_group_size=6)  # one episode each
    exercise("numeric-v3", root)


def test_an_episode_of_two_thousand_million_frames(tmp_path):
    write_dataset_v2(tmp_path / "arm", [6, 4])
    path = tmp_path / "arm/meta/episodes.jsonl"
    path.write_text(path.read_text().replace('"length": 4', f'"length": {2**31}'))
    tracemalloc.start()
    try:
        exercise("numeric-v2", tmp_path / "arm")
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def test_a_dtype_of_a_replay_buffer_that_is_a_list():
    with pytest.raises(DatasetError, match="No dtype"):
        Feature(",image", (2,))


def test_actions_that_are_true_or_false(tmp_path):
    write_dataset(tmp_path / "arm", [6, 4], features={"action": Feature("bool", (1,))})
    assert exercise("numeric-v3", tmp_path / "arm") == "read"


def test_a_table_of_data_without_the_numbers_of_tasks(root):
    path = data_file(root)
    pq.write_table(pq.read_table(path).drop_columns(["task_index"]), path)
    exercise("numeric-v3", root)


def test_fewer_rows_than_the_episodes_have(root):
    path = data_file(root)
    pq.write_table(pq.read_table(path).slice(0, 7), path, row_group_size=3)
    dataset = reel.open_dataset(root)
    with pytest.raises(DatasetError):
        dataset.read([9])
    exercise("numeric-v3", root)


@pytest.mark.parametrize("name", TABLES)
def test_texts_that_are_not_utf_8(root, name):
    table = pq.read_table(root / name)
    for place, field in enumerate(table.schema):
        wrong = pa.array([b"\xff\xfe"] * len(table)).view(pa.string())
        if pa.types.is_list(field.type):
            wrong = pa.array([[b"\xff\xfe"]] * len(table), pa.list_(pa.binary()))
            wrong = pa.ListArray.from_arrays(wrong.offsets, wrong.values.view(pa.string()))
        elif not pa.types.is_string(field.type):
            continue
        pq.write_table(table.set_column(place, field.name, wrong), root / name)
        exercise("numeric-v3", root)


@pytest.mark.parametrize("text", ["", "[]", "7", '{"columns": 3}', "\0" * 40, "[" * 100_000])
@pytest.mark.parametrize("kind", ["shards", "replay"])
def test_manifests_of_stores_and_buffers_that_are_none(tmp_path, kind, text):
    make(kind, tmp_path / kind)
    for path in [*tmp_path.rglob("meta.json"), *tmp_path.rglob("replay.json")]:
        path.write_text(text)
    assert exercise(kind, tmp_path / kind) != "read"


@pytest.mark.parametrize(
    "changes", [{"capacity": 2**62}, {"capacity": -1}, {"features": []}, {"fps": "x"}]
)
def test_layouts_of_replay_buffers_that_cannot_be(tmp_path, changes):
    make("replay", tmp_path / "replay")
    path = tmp_path / "replay/replay.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert exercise("replay", tmp_path / "replay") != "read"


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"\0\0\0\x08moof" * 20, b"\0\0\0\x01mdat" + b"\xff" * 8]
)
def test_files_of_which_nothing_can_be_salvaged(tmp_path, data):
    (tmp_path / "cut.mp4").write_bytes(data)
    assert whole_fragments(tmp_path / "cut.mp4", tmp_path / "whole.mp4") == 0


@pytest.mark.parametrize("rows", [float("inf"), float("nan"), 2**70, -1, "x", None])
@pytest.mark.parametrize("key", ["num_rows", "part_rows"])
def test_manifests_of_caches_with_impossible_numbers(tmp_path, key, rows):
    make("cache", tmp_path / "both")
    path = tmp_path / "both/cache/cache.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: rows}))
    exercise("cache", tmp_path / "both")


def read_buffer(root: Path) -> None:
    reel.ReplayBuffer(root).close()


def read_store(root: Path) -> None:
    store = reel.open_shards(root)
    assert len([store[row] for row in range(len(store))]) == 40


@pytest.mark.parametrize(("kind", "read"), [("shards", read_store), ("replay", read_buffer)])
def test_files_that_were_cut_are_found_before_they_are_touched(tmp_path, kind, read):
    root = tmp_path / kind
    make(kind, root)
    read(root)
    mapped = [path for path in root.rglob("*") if path.suffix in (".arrow", ".bin")]
    for path in mapped:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(DatasetError, match=path.name):
            read(root)
        path.write_bytes(whole)
    assert mapped


def test_a_report_of_texts_that_cannot_be_encoded(root, tmp_path):
    table = pa.table({"task_index": np.arange(2), "task": ["lift", "\x1b]0;x\x07 \x9b"]})
    pq.write_table(table, root / "meta/tasks.parquet")
    edit_info(root, robot_type="half \ud800")
    assert exercise("numeric-v3", root) == "read"


@pytest.mark.parametrize("start", ["null\n", " \tnull\n", "\ufeffnull\n", "{}\rnull\n"])
def test_a_line_that_is_null_does_not_end_the_process(tmp_path, start):
    # In a process of its own: Arrow's parser crashes.
    write_dataset_v2(tmp_path, [3, 4])
    path = tmp_path / "meta/episodes.jsonl"
    path.write_bytes(start.encode() + path.read_bytes())
    ended = subprocess.run(
        [sys.executable, "-m", "roboreel", "info", str(tmp_path)], capture_output=True, check=False
    )
    assert ended.returncode == 2
    assert b"Error: Line 1" in ended.stderr


@pytest.mark.parametrize("name", ["frame_index", "task_index", "timestamp"])
def test_counters_that_are_declared_as_something_else_are_read_all_the_same(tmp_path, name):
    make("video-v2", tmp_path / "arm")
    before = reel.open_dataset(tmp_path / "arm").read([0, 1])
    info = json.loads((tmp_path / "arm/meta/info.json").read_text())
    edit_info(tmp_path / "arm", features={**info["features"], name: "x"})
    dataset = reel.open_dataset(tmp_path / "arm")
    assert [finding.code for finding in dataset.problems] == ["RR103"]
    assert before.keys() == dataset.read([0, 1]).keys()


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_a_folder_that_is_a_link_to_itself_is_told_in_findings(root):
    shutil.rmtree(root / "data")
    (root / "data").symlink_to("data")
    assert {"RR201", "RR503"} <= {finding.code for finding in check_dataset(root)}
