"""Stores made from stores, files of other tools, and what a shard pipeline must not get wrong."""

import io
import json
import os
import pickle
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from roboreel.errors import (
    CorruptFileError,
    ExampleError,
    FeatureNotFoundError,
    MetadataError,
    MissingFileError,
    RowNotFoundError,
    UnsafePathError,
    UnsupportedVersionError,
)
from roboreel.shards import (
    Array,
    ClassLabel,
    Image,
    Sequence,
    Store,
    VideoPath,
    open_shards,
    read_manifest,
    store_name,
    write_shards,
)
from tests.video_factory import number_of, write_video


def numbers(path, count=10, **options):
    write_shards(({"n": n} for n in range(count)), {"n": "int64"}, path, **options)
    return open_shards(path)


# --- the Arrow door ------------------------------------------------------------------------------


def test_batches_come_from_the_map_without_a_copy(tmp_path):
    store = numbers(tmp_path / "s", 2000, batch_size=1000)
    before = pa.total_allocated_bytes()
    batches = list(store.to_batches())
    assert pa.total_allocated_bytes() - before < 1000
    assert [batch.num_rows for batch in batches] == [1000, 1000]
    store.close()
    assert batches[1]["n"][999].as_py() == 1999


def test_taking_a_table_of_consecutive_rows_copies_nothing(tmp_path):
    store = numbers(tmp_path / "s", 2000, batch_size=1000)
    before = pa.total_allocated_bytes()
    for rows in (range(500, 900), slice(500, 1500), np.arange(999, 1001)):  # across batches, too
        table = store.take_table(rows)
        assert table["n"].to_pylist() == np.arange(2000)[rows].tolist()
        assert pa.total_allocated_bytes() - before < 1000


@pytest.mark.parametrize("kind", ["file", "stream", "feather"])
def test_one_file_and_a_folder_of_any_arrow_files_are_stores(tmp_path, kind):
    table = pa.table({"n": [1, 2, 3], "label": pa.array([0, 1, 0], pa.uint8())})
    path = tmp_path / f"one.{ {'file': 'arrow', 'stream': 'ipc', 'feather': 'feather'}[kind] }"
    if kind == "feather":
        pyarrow.feather.write_feather(table, path)
    else:
        make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with make(str(path), table.schema) as writer:
            writer.write_table(table)
    for place in (path, tmp_path):
        store = open_shards(place, features={"label": ClassLabel(["a", "b"])})
        assert store.take([2, 0])["n"].tolist() == [3, 1]
        assert store.take([1])["label"].dtype == np.int64
        assert store.table["n"].to_pylist() == [1, 2, 3]
        assert (store.path, store.num_shards, store.is_file_backed) == (place, 1, True)


def test_images_of_hugging_face_are_the_bytes_in_their_struct():
    struct = pa.array([{"bytes": b"a", "path": None}, {"bytes": b"b", "path": "x.png"}])
    store = Store.from_table(pa.table({"image": struct}), {"image": Image()})
    assert store.take([1, 0])["image"] == [b"b", b"a"]
    assert store.table["image"].to_pylist() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array(["a", None, "c"], pa.string_view()), ["a", None, "c"]),
        (pa.array([b"a", None, b"c"], pa.binary_view()), [b"a", None, b"c"]),
        (pa.array([b"ab", None, b"cd"], pa.binary(2)), [b"ab", None, b"cd"]),
        (pa.array([[1], None, [2, 3]], pa.list_view(pa.int8())), [[1], None, [2, 3]]),
        (pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int8())),
         [{"key": ["k"], "value": [1]}, None, {"key": [], "value": []}]),
        (pa.array([1, None, 3], pa.date32()),
         [np.datetime64("1970-01-02"), None, np.datetime64("1970-01-04")]),
        (pa.array([1, None, 3], pa.timestamp("us", "UTC")),
         [np.datetime64(1, "us"), None, np.datetime64(3, "us")]),
        (pa.array([1, None, 3], pa.duration("ms")),
         [np.timedelta64(1, "ms"), None, np.timedelta64(3, "ms")]),
        (pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([5, 6])), [5, 5, 6]),
        (pa.array([[1, None], None, []], pa.list_(pa.int8())), [[1, None], None, []]),
        (pa.array([True, None, False]), [True, None, False]),
        (pa.array([np.float16(1.5), None, np.float16(2.5)], pa.float16()), [1.5, None, 2.5]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_a_table_of_any_arrow_type_is_a_store(array, values):
    def plain(value):
        if isinstance(value, dict):
            return {name: plain(of) for name, of in value.items()}
        return value.tolist() if isinstance(value, np.ndarray) else value

    for table in (pa.table({"x": array}), pa.table({"x": array}).slice(1)):
        store = Store.from_table(table)
        wanted = values[len(values) - len(store) :]
        assert [plain(row["x"]) for row in store] == wanted
        assert [plain(value) for value in store[:]["x"]] == wanted
        assert store.table.num_rows == len(wanted)
        store.table.validate(full=True)
        assert [plain(row["x"]) for row in Store.from_table(store.table)] == wanted


@pytest.mark.parametrize(
    "kind", [pa.decimal128(5, 2), pa.time32("s"), pa.null(), pa.month_day_nano_interval()]
)
def test_a_type_that_a_store_cannot_hold_is_named_with_its_column(kind):
    with pytest.raises(MetadataError, match="Column 'x' has the Arrow type"):
        Store.from_table(pa.table({"x": pa.nulls(2, kind)}))


def test_a_declaration_that_does_not_fit_is_refused():
    table = pa.table({"x": [1, 2]})
    with pytest.raises(MetadataError, match=r"'x' holds .*int64.* cannot be read as Image"):
        Store.from_table(table, {"x": Image()})
    with pytest.raises(FeatureNotFoundError, match="There is no column 'y'"):
        Store.from_table(table, {"y": Image()})
    wrong = Store.from_table(pa.table({"x": [b"123"]}), {"x": Array((2,), "uint8")})
    with pytest.raises(CorruptFileError, match="3 bytes, and its shape needs 2"):
        wrong[0]


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ({"cache_format_version": 2}, UnsupportedVersionError, "version 2"),
        ({"shard_filenames": ["../x.arrow"]}, UnsafePathError, "not the name of a file"),
        ({"shard_filenames": ["b.arrow"]}, MissingFileError, "b.arrow is missing"),
        ({"shard_row_counts": [7]}, CorruptFileError, "a.arrow has 3 rows, _metadata.json says 7"),
        ({"shard_row_counts": []}, MetadataError, "0 row counts for 1 files"),
        ({"format": "lance"}, UnsupportedVersionError, "holds 'lance' files"),
        ({"shard_filenames": [], "shard_row_counts": []}, MissingFileError, "Give features="),
    ],
)
def test_foreign_metadata_that_is_wrong_is_refused(tmp_path, change, error, reason):
    table = pa.table({"n": [1, 2, 3]})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    meta = {"cache_format_version": 1, "shard_filenames": ["a.arrow"], "shard_row_counts": [3]}
    (tmp_path / "_metadata.json").write_text(json.dumps(meta))
    assert len(open_shards(tmp_path)) == 3
    (tmp_path / "_metadata.json").write_text(json.dumps(meta | change))
    with pytest.raises(error, match=reason):
        open_shards(tmp_path)


def test_a_cache_without_rows_is_empty_once_its_features_are_given(tmp_path):
    meta = {"cache_format_version": 1, "shard_filenames": [], "shard_row_counts": []}
    (tmp_path / "_metadata.json").write_text(json.dumps(meta))
    store = open_shards(tmp_path, features={"n": "int64", "image": Image()})
    assert (len(store), store.num_shards, list(store)) == (0, 0, [])
    assert list(store.features) == ["n", "image"]
    assert store.table.num_rows == len(store.take_table([])) == 0
    assert len(pickle.loads(pickle.dumps(store)).take([])["n"]) == 0


# --- what a shard pipeline must not get wrong ----------------------------------------------------


def test_every_way_to_iterate_over_a_split_keeps_to_the_split(tmp_path):
    train, test = numbers(tmp_path / "s", 100).split(test=0.3, seed=1)
    unseen = {int(row["n"]) for row in test}
    ways = (
        [int(row["n"]) for row in train],
        [n for batch in train.iter_batches(7) for n in batch["n"].tolist()],
        [n for batch in train.iter_batches(7, shuffle=True) for n in batch["n"].tolist()],
        [n for batch in train.iter_batches(7, shuffle="shards") for n in batch["n"].tolist()],
        [n for batch in train.to_batches() for n in batch["n"].to_pylist()],
        train.table["n"].to_pylist(),
        [int(row["n"]) for row in train.flatten(tmp_path / "flat")],
        [int(row["n"]) for row in train.map(dict, tmp_path / "mapped")],
    )
    for seen in ways:
        assert len(seen) == 70
        assert not unseen & set(seen)


def test_a_slice_of_arrow_across_shards_opens_no_other_shard(tmp_path):
    store = numbers(tmp_path / "s", 400, shard_size=1000, batch_size=50)
    assert store.num_shards == 8
    assert store.take_table(range(40, 60))["n"].to_pylist() == list(range(40, 60))
    assert store._columns[0].table._open == {0, 1}


def test_a_column_of_lists_can_be_added(tmp_path):
    store = numbers(tmp_path / "s", 3)
    view = store.add_column("words", [["a"], [], ["b", "c"]], ["string"])
    assert view.table["words"].to_pylist() == [["a"], [], ["b", "c"]]
    assert view.flatten(tmp_path / "f")[2]["words"] == ["b", "c"]


def test_readers_find_a_store_at_every_moment_while_it_is_mapped_onto_itself(tmp_path):
    store = numbers(tmp_path / "s", 5)
    seen = []

    def plus(row):
        seen.append(len(open_shards(tmp_path / "s")))
        return {"n": row["n"] + 1}

    again = store.map(plus, tmp_path / "s")
    assert seen == [5] * 5
    assert [row["n"] for row in again] == [1, 2, 3, 4, 5]


def test_a_function_that_fails_leaves_no_half_store(tmp_path):
    store = numbers(tmp_path / "s", 5)
    with pytest.raises(ZeroDivisionError):
        store.map(lambda row: {"n": 1 // (int(row["n"]) - 3)}, tmp_path / "m")
    with pytest.raises(MissingFileError):
        open_shards(tmp_path / "m")


def test_a_mapped_store_is_made_again_only_if_rows_or_files_or_the_source_differ(tmp_path):
    calls = []

    def count(row):
        calls.append(row)
        return row

    store = numbers(tmp_path / "s", 4)
    for source, calls_in_all in (({"v": 1}, 4), ({"v": 1}, 4), ({"v": 2}, 8)):
        store.map(count, tmp_path / "m", source=source)
        assert len(calls) == calls_in_all
    store.select([0, 1]).map(count, tmp_path / "m", source={"v": 2})
    assert len(calls) == 10
    # The same features and no source, but other content: the fingerprints of both are equal.
    write_shards(({"n": n + 1} for n in range(4)), {"n": "int64"}, tmp_path / "s")
    again = open_shards(tmp_path / "s").select([0, 1]).map(count, tmp_path / "m", source={"v": 2})
    assert [row["n"] for row in again] == [1, 2]
    store.map(count, tmp_path / "m")
    store.map(count, tmp_path / "m")
    assert len(calls) == 20


def test_a_flattened_store_is_written_once_and_again_when_a_foreign_file_changes(tmp_path):
    def write(values):
        table = pa.table({"n": values})
        with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
            writer.write_table(table)
        os.utime(tmp_path / "a.arrow", ns=(time.time_ns(), time.time_ns() + len(values)))

    write([1, 2, 3])
    flat = [open_shards(tmp_path / "a.arrow").flatten(tmp_path / "f") for _ in range(2)]
    assert flat[0]._columns[0].origin == flat[1]._columns[0].origin
    write([4, 5, 6, 7])
    assert open_shards(tmp_path / "a.arrow").flatten(tmp_path / "f").table["n"].to_pylist() == [
        *(4, 5, 6, 7)
    ]


def test_small_bytes_inside_structs_become_large_on_every_path(tmp_path):
    table = pa.table({"s": pa.array([{"b": b"1"}, {"b": b"2"}], pa.struct([("b", pa.binary())]))})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    store = open_shards(tmp_path)
    large = pa.struct([("b", pa.large_binary())])
    assert store.table["s"].type == store.take_table([1, 0])["s"].type == large
    assert next(store.to_batches()).schema.field("s").type == large


# --- progress and names --------------------------------------------------------------------------


def test_progress_is_reported_row_by_row_or_printed(tmp_path, capsys):
    store, reports = numbers(tmp_path / "s", 3), []
    store.map(dict, tmp_path / "m", progress=lambda done, total: reports.append((done, total)))
    assert reports == [(1, 3), (2, 3), (3, 3)]
    store.flatten(tmp_path / "f", progress=True)
    assert "1 of 1" in capsys.readouterr().err


def test_a_folder_name_tells_all_parts_apart_and_stays_the_same():
    name = store_name("CIFAR-10", version="1.2.0", split="test")
    assert name == "cifar-10-1.2.0-default-test-383c237e1e0d"
    parts = [
        ("a", "1", "b-c", "d"),
        ("a", "1", "b", "c-d"),
        ("A", "1", "b", "c-d"),
        ("a", "", "1", "d"),
    ]
    names = {store_name(n, version=v, config=c, split=s) for n, v, c, s in parts}
    assert len(names) == 4
    assert all("/" not in store_name(odd) for odd in ("../x", "a/b", "…"))


# --- values --------------------------------------------------------------------------------------


def test_labels_are_names_and_numbers():
    label = ClassLabel(["cat", "dog"])
    assert (label.num_classes, label.str2int("dog"), label.int2str(np.int64(0))) == (2, 1, "cat")
    assert label.str2int(["dog", "cat"]) == [1, 0]
    assert label.int2str(np.array([1, 0])) == ["dog", "cat"]
    assert ClassLabel(num_classes=3) == ClassLabel(["0", "1", "2"])
    with pytest.raises(ValueError, match="'cow' is not one of the labels cat, dog"):
        label.str2int("cow")
    for wrong in (2, -1):
        with pytest.raises(ValueError, match=f"Label {wrong} does not exist"):
            label.int2str(wrong)


def encoded(mode, file_format, **options):
    buffer = io.BytesIO()
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    pillow = pytest.importorskip("PIL.Image")
    image = pillow.fromarray(pixels).convert(mode)
    if mode == "RGBA":
        image.putalpha(100)
    image.save(buffer, file_format, **options)
    return buffer.getvalue()


def test_transparency_is_kept_dropped_or_refused(tmp_path):
    pictures = [
        encoded("RGBA", "PNG"),
        encoded("RGB", "PNG"),
        encoded("RGBA", "WEBP", lossless=True),
        encoded("P", "TIFF"),
    ]
    write_shards(({"x": p} for p in pictures), {"x": Image()}, tmp_path / "s")
    store = open_shards(tmp_path / "s")
    assert [row["x"].shape[2] for row in store.decoded()] == [4, 3, 4, 3]
    assert store.decoded()[0]["x"][0, 0, 3] == 100
    assert [row["x"].shape[2] for row in store.decoded(alpha="drop")] == [3, 3, 3, 3]
    with pytest.raises(CorruptFileError, match=r"'x' of row 0 has transparency"):
        store.decoded(alpha="refuse")[0]
    assert store.decoded(alpha="refuse")[1]["x"].shape == (4, 5, 3)
    with pytest.raises(ValueError, match="'keep', 'drop' or 'refuse'"):
        store.decoded(alpha="maybe")  # type: ignore[arg-type]  # refused


@pytest.mark.parametrize(("mode", "file_format"), [("P", "GIF"), ("RGB", "BMP"), ("RGB", "WEBP")])
def test_gif_bmp_and_webp_are_decoded(tmp_path, mode, file_format):
    picture = encoded(mode, file_format, **({"lossless": True} if file_format == "WEBP" else {}))
    write_shards([{"x": picture}], {"x": Image()}, tmp_path / "s")
    pillow = pytest.importorskip("PIL.Image")
    expected = np.asarray(pillow.open(io.BytesIO(picture)).convert("RGB"))
    assert np.array_equal(open_shards(tmp_path / "s").decoded()[0]["x"], expected)


def test_generators_nulls_and_masks_are_values(tmp_path):
    features = {
        "x": ["float32"],
        "fixed": Sequence("int8", 2),
        "mask": Image(),
        "words": ["string"],
    }
    mask = np.eye(3, dtype=bool)
    examples: list[dict[str, Any]] = [
        {"x": (n for n in (1, None, 2)), "fixed": iter([1, 2]), "mask": mask, "words": iter("ab")},
        {"x": [1, 2], "fixed": None, "mask": mask, "words": []},
        {"x": [None], "fixed": None, "mask": mask, "words": None},
    ]
    write_shards(examples, features, tmp_path / "s")
    store = open_shards(tmp_path / "s")
    assert store[0]["x"] == [1.0, None, 2.0]
    assert store[1]["x"].tolist() == [1.0, 2.0]
    assert store[2]["x"] == [None]
    assert store[0]["fixed"].tolist() == [1, 2]
    assert store[0]["words"] == ["a", "b"]
    assert np.array_equal(store.decoded()[0]["mask"][..., 0], mask * 255)


def test_keys_of_a_stream_are_dropped(tmp_path):
    write_shards(enumerate({"n": n} for n in (5, 6)), {"n": "int64"}, tmp_path / "s")
    assert open_shards(tmp_path / "s").take([0, 1])["n"].tolist() == [5, 6]
    with pytest.raises(ExampleError, match="expected a dict of features, got int 5"):
        write_shards([(0, 5)], {"n": "int64"}, tmp_path / "t")  # type: ignore[list-item]  # refused


def test_missing_names_are_nulls_on_request_only(tmp_path):
    features = {"n": "int64", "pose": {"x": "int8", "y": "int8"}}
    examples: list[dict[str, Any]] = [{"n": 1}, {"pose": {"x": 1}}]
    with pytest.raises(ExampleError, match="'pose' is missing"):
        write_shards(examples, features, tmp_path / "s")
    write_shards(examples, features, tmp_path / "s", missing_as_null=True)
    assert list(open_shards(tmp_path / "s")) == [
        {"n": 1, "pose": None},
        {"n": None, "pose": {"x": 1, "y": None}},
    ]
    with pytest.raises(ExampleError, match="'m' is not one of the features"):
        write_shards([{"m": 1}], features, tmp_path / "s", missing_as_null=True)


def test_videos_are_decoded_on_request(tmp_path):
    write_video(tmp_path / "clip.mp4", range(20, 25), bframes=2)
    write_shards([{"clip": "clip.mp4"}, {"clip": None}], {"clip": VideoPath()}, tmp_path / "s")
    store = open_shards(tmp_path / "s")
    assert store.decoded()[0]["clip"] == "clip.mp4"
    decoded = store.decoded(videos=True, root=tmp_path)
    images = decoded[0]["clip"]
    assert [number_of(image) for image in images] == [20, 21, 22, 23, 24]
    assert decoded.take([1, 0])["clip"][0] is None
    with pytest.raises(MissingFileError):
        store.decoded(videos=True)[0]


def test_times_are_written_and_read(tmp_path):
    when = np.datetime64("2026-01-02T03:04:05.000006", "us")
    write_shards([{"t": when}, {"t": None}], {"t": "datetime64[us]"}, tmp_path / "s")
    store = open_shards(tmp_path / "s")
    assert store[0]["t"] == when
    assert store.table["t"].type == pa.timestamp("us")


def test_a_derived_manifest_says_what_it_was_made_from(tmp_path):
    store = numbers(tmp_path / "s", 3)
    store.map(dict, tmp_path / "m", source={"blur": 3})
    source = read_manifest(tmp_path / "m").source
    assert source is not None
    assert source["map"] == {"blur": 3}
    assert source["store"] == json.loads(json.dumps(store.identity))
    assert sys.getsizeof(json.dumps(source)) < 1000


def test_a_run_of_rows_is_checked_by_its_ends(tmp_path):
    store = numbers(tmp_path / "s", 400, shard_size=1000, batch_size=50)
    rows = store.table["n"].to_pylist()
    for asked in (slice(40, 60), slice(-3, None), slice(390, 900), slice(0, 9, 4), slice(5, 5)):
        assert store.take_table(asked)["n"].to_pylist() == rows[asked]
    assert store.take_table(range(7, 3))["n"].to_pylist() == []
    view = store.select(range(0, 400, 2))
    assert view.take_table(range(10, 40))["n"].to_pylist() == rows[20:80:2]
    assert store.take_table(range(-1, 2))["n"].to_pylist() == [rows[-1], *rows[:2]]
    with pytest.raises(RowNotFoundError):
        store.take_table(range(390, 401))
