"""Reading frames: alignment, windows, views, memory."""

import json
import multiprocessing
import os
import pickle
import sys
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import imagecodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roboreel as reel
from roboreel.dataset import opened
from roboreel.errors import (
    CorruptFileError,
    EpisodeNotFoundError,
    FeatureNotFoundError,
    MissingFileError,
    MissingValueError,
    RowNotFoundError,
    WindowError,
)
from roboreel.io.budget import process_budget
from roboreel.schema import Feature
from roboreel.window import Window
from tests.factory import (
    NUMBERS,
    SHARED,
    TASKS,
    edit_info,
    image_of,
    needs_shared,
    write_dataset,
    write_dataset_v2,
)

IMAGES = {**NUMBERS, "observation.images.front": Feature("image", (8, 12, 3))}
LENGTHS = [3, 1, 5, 2, 7]


@pytest.fixture(autouse=True)
def _the_usual_budget():
    budget = process_budget()
    limit = budget.limit_bytes
    yield
    budget.limit_bytes = limit
    budget.clear()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("dataset")
    write_dataset(root, LENGTHS, features=IMAGES)
    return reel.open_dataset(root)


def expected(row: int, name: str):
    """Return what the factory wrote, in the most obvious way."""
    episode = next(i for i in range(len(LENGTHS)) if row < sum(LENGTHS[: i + 1]))
    frame = row - sum(LENGTHS[:episode])
    return {
        "observation.state": [row * 100.0 + i for i in range(3)],
        "action": [row * 100.0 + i for i in range(2)],
        "next.reward": row * 100.0,
        "next.done": row % 3 == 0,
        "grid": [[row * 100.0 + 3 * i + j for j in range(3)] for i in range(2)],
        "mode": row * 100,
        "note": f"row {row}",
        "observation.images.front": image_of(row).transpose(2, 0, 1),
        "timestamp": np.float32(frame / 30),
        "frame_index": frame,
        "episode_index": episode,
        "index": row,
        "task_index": episode % 2,
        "task": TASKS[episode % 2],
    }[name]


@needs_shared
@pytest.mark.parametrize(
    "name", ["lerobot_v30_numeric", "lerobot_v30_image", "lerobot_v30_video", "unitree_g1_v21"]
)
@pytest.mark.parametrize("kind", ["plain", "delta"])
def test_every_value_and_pixel_is_what_lerobot_returned(name, kind):
    dataset = reel.open_dataset(SHARED / name)
    with np.load(SHARED / name / "expected.npz") as stored:
        deltas = json.loads(str(stored["delta_timestamps"]))
        keys = [key.split("/", 2) for key in stored.files if key.startswith(f"{kind}/")]
        rows = sorted({int(row) for _, row, _ in keys})
        windows = {key: Window(seconds=seconds) for key, seconds in deltas.items()}
        batch = dataset.read(rows, windows=windows if kind == "delta" else None)
        for _, row, feature in keys:
            ours = np.asarray(batch[feature][rows.index(int(row))])
            theirs = stored[f"{kind}/{row}/{feature}"]
            assert ours.shape == theirs.shape, feature
            assert np.array_equal(ours, theirs), (feature, row)
    assert len(keys) >= 36


@needs_shared
def test_a_subset_holds_the_rows_that_lerobot_returned():
    view = reel.open_dataset(SHARED / "lerobot_v30_numeric").select(episodes=[2, 0])
    with np.load(SHARED / "lerobot_v30_numeric" / "expected.npz") as stored:
        assert len(view) == int(stored["subset/len"])
        assert np.array_equal(
            view.read(range(len(view)), ["index"])["index"], stored["subset/index"]
        )


def test_one_sample_is_every_feature_and_the_task(dataset):
    sample = dataset[5]
    assert set(sample) == {*dataset.features, "task"}
    for name, value in sample.items():
        assert np.array_equal(value, expected(5, name)), name


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_batch_equals_what_a_slow_reader_finds(dataset, data):
    numbers = data.draw(st.lists(st.integers(0, len(LENGTHS) - 1), max_size=7), "episodes")
    view = dataset.select(episodes=numbers)
    starts = np.cumsum([0, *LENGTHS])
    rows = [r for e in sorted(set(numbers)) for r in range(starts[e], starts[e + 1])]
    assert len(view) == len(rows)
    if not rows:
        assert view.read([], ["action"])["action"].shape == (0, 2)
        return
    samples = data.draw(st.lists(st.integers(-len(rows), len(rows) - 1), max_size=9), "samples")
    offsets = data.draw(st.lists(st.integers(-9, 9), min_size=1, max_size=5), "offsets")
    windowed = data.draw(
        st.sampled_from(["action", "mode", "note", "grid", "observation.images.front"]), "feature"
    )
    batch = view.read(
        samples, ["observation.state", "task"], windows={windowed: Window(frames=offsets)}
    )
    for place, sample in enumerate(samples):
        row = rows[sample]
        episode = int(np.searchsorted(starts, row, side="right")) - 1
        assert batch["observation.state"][place].tolist() == expected(row, "observation.state")
        assert batch["task"][place] == expected(row, "task")
        for step, offset in enumerate(offsets):
            inside = min(max(row + offset, starts[episode]), starts[episode + 1] - 1)
            assert np.array_equal(batch[windowed][place][step], expected(inside, windowed))
            assert batch[f"{windowed}_is_pad"][place][step] == (inside != row + offset)


def test_asking_twice_gives_the_same_bytes(dataset):
    first, second = (dataset.read([4, 2, 4]) for _ in range(2))
    for name in first:
        assert np.array_equal(first[name], second[name])
    first["action"][:] = -1
    assert np.array_equal(dataset.read([4, 2, 4])["action"], second["action"])


def test_an_episode_is_read_whole_and_streamed_one_by_one(dataset):
    episode = dataset.episodes[2]
    values = episode.read()
    assert values["action"].shape == (5, 2)
    assert values["index"].tolist() == [4, 5, 6, 7, 8]
    streamed = list(episode.stream("observation.images.front"))
    assert np.array_equal(np.stack(streamed), values["observation.images.front"])
    with pytest.raises(FeatureNotFoundError, match="no camera 'action'"):
        episode.stream("action")


def test_images_come_in_the_layout_and_size_that_is_asked_for(dataset):
    camera = "observation.images.front"
    assert np.array_equal(dataset.read([3], [camera], layout="hwc")[camera][0], image_of(3))
    small = dataset.read([3, 9, 3], [camera], image_size=(4, 6))[camera]
    assert small.shape == (3, 3, 4, 6)
    assert np.array_equal(small[0], small[2])
    assert abs(int(small[0, 0, 3, 5]) - 3) <= 1


@pytest.mark.parametrize("version", ["v2.0", "v2.1"])
def test_older_versions_read_the_same(tmp_path, dataset, version):
    write_dataset_v2(tmp_path, LENGTHS, version=version, features=IMAGES)
    older = reel.open_dataset(tmp_path)
    ours, theirs = older.read(range(len(older))), dataset.read(range(len(dataset)))
    for name in theirs:
        assert np.array_equal(ours[name], theirs[name]), name


def rewrite(root: Path, change) -> None:
    """Replace every data file by what ``change`` makes of its table."""
    for path in sorted((root / "data").rglob("*.parquet")):
        table = change(pq.read_table(path))
        pq.write_table(table, path, row_group_size=3)


def with_column(table, name, kind):
    place = table.column_names.index(name)
    return table.set_column(place, name, table.column(name).combine_chunks().cast(kind))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("action", pa.list_(pa.float32())),
        ("action", pa.large_list(pa.float64())),
        ("action", pa.list_(pa.float16(), 2)),
        ("grid", pa.large_list(pa.large_list(pa.float32()))),
        ("mode", pa.int32()),
        ("mode", pa.list_(pa.int64(), 1)),
        ("note", pa.large_string()),
        ("note", pa.dictionary(pa.int32(), pa.string())),
        ("next.done", pa.int8()),
    ],
)
def test_every_way_to_store_a_column_reads_the_same(tmp_path, dataset, name, kind):
    write_dataset(tmp_path, LENGTHS)
    small = pa.types.is_fixed_size_list(kind) and kind.value_type == pa.float16()

    def change(table):
        if kind == pa.list_(pa.int64(), 1):
            place = table.column_names.index(name)
            flat = table.column(name).combine_chunks()
            return table.set_column(place, name, pa.FixedSizeListArray.from_arrays(flat, 1))
        return with_column(table, name, kind)

    rewrite(tmp_path, change)
    ours = reel.open_dataset(tmp_path).read(range(18), [name])[name]
    theirs = dataset.read(range(18), [name])[name]
    assert ours.dtype == theirs.dtype
    assert np.allclose(ours, theirs, rtol=1e-3) if small else np.array_equal(ours, theirs)


def test_arrays_that_datasets_wrote_are_read(tmp_path, dataset):
    datasets = pytest.importorskip("datasets")
    write_dataset(tmp_path, LENGTHS)
    for path in sorted((tmp_path / "data").rglob("*.parquet")):
        table = datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "cache"))
        assert isinstance(table.features["grid"], datasets.Array2D)
        table.to_parquet(str(path))
    ours = reel.open_dataset(tmp_path).read(range(18), ["grid", "action"])
    assert np.array_equal(ours["grid"], dataset.read(range(18), ["grid"])["grid"])


def test_a_null_where_a_value_must_be_is_named(tmp_path):
    write_dataset(tmp_path, LENGTHS)

    def change(table):
        place = table.column_names.index("mode")
        values = table.column("mode").to_pylist()
        return table.set_column(place, "mode", pa.array([None, *values[1:]], pa.int64()))

    rewrite(tmp_path, change)
    with pytest.raises(MissingValueError, match=r"'mode' is null in row 0, .*parquet"):
        reel.open_dataset(tmp_path).read([0], ["mode"])


def test_a_shape_that_changed_is_named(tmp_path):
    write_dataset(tmp_path, LENGTHS)
    info = json.loads((tmp_path / "meta" / "info.json").read_text())
    info["features"]["action"]["shape"] = [7]
    edit_info(tmp_path, features=info["features"])
    with pytest.raises(CorruptFileError, match=r"\(7,\) is declared .* \(2,\) is stored"):
        reel.open_dataset(tmp_path)[0]


def test_a_feature_without_a_column_is_named(tmp_path):
    write_dataset(tmp_path, LENGTHS)
    rewrite(tmp_path, lambda table: table.drop_columns(["mode"]))
    dataset = reel.open_dataset(tmp_path)
    assert dataset.read([0], ["action"])["action"].shape == (1, 2)
    with pytest.raises(CorruptFileError, match=r"'mode' is described .* but has no column"):
        dataset[0]


def test_a_missing_file_names_episode_and_file_when_it_is_read(tmp_path):
    write_dataset(tmp_path, LENGTHS)
    (tmp_path / "data" / "chunk-000" / "file-001.parquet").unlink()
    dataset = reel.open_dataset(tmp_path)
    assert dataset.read([0], ["mode"])["mode"].tolist() == [0]
    with pytest.raises(MissingFileError, match=r"episodes 2 to 3 .*file-001\.parquet"):
        dataset.read([4], ["mode"])


def test_rows_of_episodes_that_the_metadata_lost_are_stepped_over(tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=5)
    path = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(0, 1), table.slice(2)]), path)
    dataset = reel.open_dataset(tmp_path)
    assert len(dataset) == sum(LENGTHS) - LENGTHS[1]
    rows = dataset.read(range(len(dataset)), ["index"])["index"]
    assert rows.tolist() == [0, 1, 2, *range(4, 18)]


def test_a_file_with_other_episodes_than_the_metadata_says_is_refused(tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=5)

    def change(table):
        numbers = pa.array([9] * table.num_rows, pa.int64())
        return table.set_column(table.column_names.index("episode_index"), "episode_index", numbers)

    rewrite(tmp_path, change)
    with pytest.raises(CorruptFileError, match="Episode 0 has 3 frames in the metadata and 0"):
        reel.open_dataset(tmp_path)[0]


def stored_in_another_order(root, order):
    """Store the episodes of a one-file dataset in another order, one row group for all."""
    path = root / "data" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    starts = np.cumsum([0, *LENGTHS])
    parts = [table.slice(starts[e], LENGTHS[e]) for e in order]
    pq.write_table(pa.concat_tables(parts), path)
    meta = root / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    episodes = pq.read_table(meta)
    begin = dict(zip(order, np.cumsum([0, *[LENGTHS[e] for e in order]]).tolist(), strict=False))
    for name, shift in (("dataset_from_index", 0), ("dataset_to_index", 1)):
        values = pa.array([begin[e] + shift * LENGTHS[e] for e in range(len(LENGTHS))])
        episodes = episodes.set_column(episodes.column_names.index(name), name, values)
    pq.write_table(episodes, meta)


@pytest.mark.filterwarnings("ignore:The memory budget is")  # Other tests' datasets are open.
@pytest.mark.parametrize("limit", ["1MB", 300])
def test_episodes_stored_in_another_order_than_their_numbers_are_found(tmp_path, limit):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=5)
    stored_in_another_order(tmp_path, [3, 0, 4, 1, 2])
    dataset = reel.open_dataset(tmp_path, memory=limit)
    for episode in dataset.episodes:
        values = episode.read(["episode_index", "frame_index"])
        assert values["episode_index"].tolist() == [episode.number] * episode.length
        assert values["frame_index"].tolist() == list(range(episode.length))


def test_lengths_that_disagree_within_one_row_group_are_seen(tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=5)
    rewrite(tmp_path, lambda table: table)
    path = tmp_path / "data" / "chunk-000" / "file-000.parquet"
    pq.write_table(pq.read_table(path), path)
    meta = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    episodes = pq.read_table(meta)
    shifted = pa.array([4, 1, 4, 2, 7])
    place = episodes.column_names.index("length")
    pq.write_table(episodes.set_column(place, "length", shifted), meta)
    with pytest.raises(CorruptFileError, match="Episode 0 has 4 frames in the metadata and 3"):
        reel.open_dataset(tmp_path)[0]


def test_a_view_that_was_read_opens_no_file_again(tmp_path, monkeypatch):
    write_dataset_v2(tmp_path, LENGTHS)
    view = reel.open_dataset(tmp_path).select(episodes=[0, 2, 4])
    first = view.read(range(len(view)), ["action"])
    opened = []
    files = type(view._reader._files)
    monkeypatch.setattr(files, "open", lambda *arguments: opened.append(arguments))
    assert np.array_equal(view.read(range(len(view)), ["action"])["action"], first["action"])
    assert opened == []


def test_only_whole_numbers_count_samples_and_episodes(dataset):
    with pytest.raises(TypeError, match="Samples are whole numbers: float64"):
        dataset.read([1.7])
    with pytest.raises(TypeError, match="Samples are whole numbers: bool"):
        dataset.read(np.array([True, False]))
    with pytest.raises(TypeError, match="Episodes are whole numbers: float64"):
        dataset.select(episodes=[1.5])
    with pytest.raises(EpisodeNotFoundError, match="does not exist"):
        dataset.select(episodes=[2**70])
    with pytest.raises(RowNotFoundError, match="does not exist"):
        dataset.read([2**64])


def test_a_stored_shape_of_the_same_size_is_another_shape(tmp_path):
    write_dataset(tmp_path, LENGTHS)
    info = json.loads((tmp_path / "meta" / "info.json").read_text())
    info["features"]["grid"]["shape"] = [3, 2]
    info["features"]["next.reward"]["dtype"] = "int64"
    info["features"]["timestamp"]["dtype"] = "int64"
    edit_info(tmp_path, features=info["features"])
    dataset = reel.open_dataset(tmp_path)
    with pytest.raises(CorruptFileError, match=r"\(3, 2\) is declared .* \(2, 3\) is stored"):
        dataset.read([0], ["grid"])
    with pytest.raises(CorruptFileError, match="would lose their fractions"):
        dataset.read([0], ["timestamp"])
    assert dataset.read([2], ["next.reward"])["next.reward"].tolist() == [200]


@pytest.mark.parametrize("stored", ["int64", "float64"])
def test_numbers_beyond_their_declared_dtype_are_refused_and_others_are_not(tmp_path, stored):
    write_dataset(tmp_path, [4], features={"mode": Feature(stored, (1,))})  # 0, 100, 200, 300
    features = json.loads((tmp_path / "meta" / "info.json").read_text())["features"]
    for dtype, fits in {"uint8": False, "int16": True, "int8": False}.items():
        features["mode"]["dtype"] = dtype
        edit_info(tmp_path, features=features)
        dataset = reel.open_dataset(tmp_path)
        if fits:
            assert dataset.read([3], ["mode"])["mode"].tolist() == [300]
        else:
            with pytest.raises(CorruptFileError, match=f"to 300.* digits as {dtype}"):
                dataset.read([3], ["mode"])


def test_an_index_column_that_starts_elsewhere_changes_nothing(tmp_path):
    write_dataset(tmp_path, LENGTHS)

    def change(table):
        moved = pa.array([value + 1000 for value in table.column("index").to_pylist()])
        return table.set_column(table.column_names.index("index"), "index", moved)

    rewrite(tmp_path, change)
    batch = reel.open_dataset(tmp_path).read([5], ["index", "mode"])
    assert (batch["index"].tolist(), batch["mode"].tolist()) == ([1005], [500])


def test_views_select_by_task_and_by_a_function_and_nest(dataset):
    drawers = dataset.select(tasks=[TASKS[1]])
    assert drawers.episodes.numbers.tolist() == [1, 3]
    assert dataset.select(tasks=TASKS[1]).episodes.numbers.tolist() == [1, 3]
    long = dataset.filter(lambda episode: episode.length > 2)
    assert long.episodes.numbers.tolist() == [0, 2, 4]
    assert long.select(episodes=[4]).read([0], ["index"])["index"].tolist() == [11]
    with pytest.raises(EpisodeNotFoundError, match="Episode 1 does not exist: there are 3 "):
        long.select(episodes=[1])
    with pytest.raises(LookupError, match="No episode has the task 'dance'"):
        dataset.select(tasks=["dance"])


def test_what_does_not_exist_is_named(dataset):
    with pytest.raises(EpisodeNotFoundError, match=r"Episode 9 .* 5 episodes, 0 to 4"):
        dataset.select(episodes=[0, 9])
    with pytest.raises(
        RowNotFoundError, match="Sample 18 does not exist: there are 18 samples, 0 to 17"
    ):
        dataset.read([0, 18])
    with pytest.raises(IndexError, match="Sample -19"):
        dataset[-19]
    with pytest.raises(FeatureNotFoundError, match="There is no feature 'akshun': there are"):
        dataset.read([0], ["akshun"])
    with pytest.raises(WindowError, match=r"Between two frames at 30 fps: 0\.05 s"):
        dataset.read([0], windows={"action": Window(seconds=(0.05,))})


def test_what_is_not_asked_for_is_not_read(tmp_path):
    write_dataset(tmp_path, LENGTHS, features=IMAGES)
    dataset = reel.open_dataset(tmp_path)
    dataset.read(range(18), ["mode"])
    held_by = dict(dataset.memory.held_by)
    held_by.pop("open files")  # The footer of the data file.
    assert held_by == {"dense columns": 18 * 8}


@pytest.mark.filterwarnings("ignore:The memory budget is")  # Other tests' datasets are open.
@pytest.mark.parametrize("limit", [0, 40, 200, 700])
def test_a_small_budget_is_kept_and_the_values_stay_right(tmp_path, dataset, limit):
    write_dataset(tmp_path, LENGTHS, features=IMAGES)
    rewrite(tmp_path, lambda table: table)
    expected_values = dataset.read(range(18))
    small = reel.open_dataset(tmp_path, memory=limit)
    for _ in range(2):
        values = small.read(range(18), [n for n in small.features if n not in small.cameras])
        assert small.memory.held_bytes <= limit
        for name in values:
            assert np.array_equal(values[name], expected_values[name]), name


@pytest.mark.filterwarnings("ignore:The memory budget is")  # Other tests' datasets are open.
def test_memory_says_what_is_held_and_which_path_each_feature_is_on(tmp_path):
    write_dataset(tmp_path, LENGTHS, features=IMAGES)
    dataset = reel.open_dataset(tmp_path, memory="1MB")
    dataset[0]
    report = dataset.memory
    assert report.limit_bytes == 1_000_000
    assert report.held_bytes == sum(report.held_by.values())
    assert report.paths["action"] == "one dense array"
    assert "extent" in report.paths["observation.images.front"]
    assert "of 1.0 MB held" in str(report)
    tight = reel.open_dataset(tmp_path, memory=100)
    assert tight.memory.paths["grid"].startswith("row groups")


def test_less_memory_for_another_dataset_is_said(tmp_path):
    for name in "ab":
        write_dataset(tmp_path / name, LENGTHS)
    first = reel.open_dataset(tmp_path / "a", memory="8GB")
    with pytest.warns(UserWarning, match=r"is 64 MB from now on, and was 8,000 MB: .*") as warned:
        second = reel.open_dataset(tmp_path / "b", memory="64MB")
    assert warned[0].filename == __file__
    assert first.memory.limit_bytes == second.memory.limit_bytes == 64_000_000
    reel.open_dataset(tmp_path / "a", memory="64MB")  # Nothing changes.
    reel.open_dataset(tmp_path / "a", memory="1GB")


def test_less_memory_for_the_only_dataset_is_not_said(tmp_path, monkeypatch):
    write_dataset(tmp_path, LENGTHS)
    monkeypatch.setattr(opened, "_open", weakref.WeakSet())
    reel.open_dataset(tmp_path, memory="8GB")
    dataset = reel.open_dataset(tmp_path, memory="64MB")
    assert dataset.memory.limit_bytes == 64_000_000


def test_a_corrupt_picture_names_its_row_and_file(tmp_path):
    write_dataset(tmp_path, LENGTHS, features=IMAGES)
    path = tmp_path / "data" / "chunk-000" / "file-000.parquet"
    picture = imagecodecs.png_encode(image_of(1))
    broken = picture.replace(picture[picture.index(b"IDAT") + 4 :][:8], bytes(8))
    assert path.read_bytes().count(picture) == 1
    path.write_bytes(path.read_bytes().replace(picture, broken))
    dataset = reel.open_dataset(tmp_path)
    assert dataset.read([0])["index"].tolist() == [0]
    with pytest.raises(CorruptFileError, match=r"Row 1 of 'observation\.images\.front'.*file-000"):
        dataset.read([0, 1, 2])


def test_a_pickle_is_small_and_opens_the_same_view(dataset):
    view = dataset.select(episodes=[4, 0])
    frozen = pickle.dumps(view)
    assert len(frozen) < 1000
    again = pickle.loads(frozen)
    assert np.array_equal(again.read([0, 5], ["index"])["index"], [0, 13])
    assert again.episodes.numbers.tolist() == [0, 4]


def _indices(view, samples):
    batch = view.read(samples, ["index", "note", "observation.images.front"])
    return batch["index"].tolist(), int(batch["observation.images.front"].sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_child_processes_read_also_after_the_parent_has(dataset, method):
    if method == "fork" and (not hasattr(os, "fork") or sys.platform == "darwin"):
        pytest.skip("this system does not fork safely")
    view = dataset.select(episodes=[2, 4])
    ours = _indices(view, [0, 7, 3])
    # Not multiprocessing.Pool, which waits for ever when its children cannot start.
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(_indices, [view] * 4, [[0, 7, 3]] * 4)) == [ours] * 4


def test_threads_read_side_by_side(dataset):
    process_budget().clear()
    whole = dataset.read(range(18))
    with ThreadPoolExecutor(8) as pool:
        for batch in pool.map(lambda _: dataset.read(range(18)), range(24)):
            for name in whole:
                assert np.array_equal(batch[name], whole[name]), name
