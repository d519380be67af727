"""Folders of Hugging Face datasets, and columns as other tools store them."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

from roboreel.errors import (
    CorruptFileError,
    MetadataError,
    MissingFileError,
    MissingValueError,
    UnsafePathError,
)
from roboreel.shards import Array, Store, open_shards

GRID = pa.list_(pa.list_(pa.float32()))
PAIR = pa.list_(pa.int32(), 2)


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    feather.write_feather(pa.table({"row": rows}), path, compression="uncompressed")


def rows_of(path):
    return open_shards(path)[:]["row"].tolist()


def save_to_disk(root, *parts):
    """Write what ``datasets.Dataset.save_to_disk`` writes, a file for each part."""
    names = [f"data-{i:05d}-of-{len(parts):05d}.arrow" for i in range(len(parts))]
    for name, rows in zip(names, parts, strict=True):
        write_rows(root / name, rows)
    listed = [{"filename": name} for name in names]
    (root / "state.json").write_text(json.dumps({"_data_files": listed, "_split": "train"}))


def test_files_that_an_earlier_save_left_behind_are_not_read(tmp_path):
    save_to_disk(tmp_path, [0, 1], [2], [3])
    assert rows_of(tmp_path) == [0, 1, 2, 3]
    save_to_disk(tmp_path, [0, 1], [2, 3])
    assert len(list(tmp_path.glob("*.arrow"))) == 5
    assert rows_of(tmp_path) == [0, 1, 2, 3]


def test_files_that_a_saved_dataset_names_are_in_its_folder(tmp_path):
    save_to_disk(tmp_path, [0], [1])
    (tmp_path / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(MissingFileError, match=r"00001-of-00002\.arrow is missing, which state"):
        open_shards(tmp_path)
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../x.arrow"}]}')
    with pytest.raises(UnsafePathError, match="not the name of a file"):
        open_shards(tmp_path)


@pytest.mark.parametrize("state", ["{}", "[1", "[]", '{"_data_files": 3}', '{"epoch": 4}'])
def test_the_state_of_another_tool_means_nothing(tmp_path, state):
    write_rows(tmp_path / "a.arrow", [1, 2])
    (tmp_path / "state.json").write_text(state)
    assert rows_of(tmp_path) == [1, 2]


def test_a_dict_of_splits_names_their_folders(tmp_path):
    save_to_disk(tmp_path / "train", [0, 1])
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(MetadataError, match=r"splits: 'train', 'test'\. Open .*train'"):
        open_shards(tmp_path)
    assert rows_of(tmp_path / "train") == [0, 1]


def test_a_cache_is_read_without_the_results_that_lie_beside_it(tmp_path):
    (tmp_path / "dataset_info.json").write_text('{"splits": {"train": {}, "test": {}}}')
    write_rows(tmp_path / "arm-train-00000-of-00002.arrow", [0, 1])
    write_rows(tmp_path / "arm-train-00001-of-00002.arrow", [2])
    write_rows(tmp_path / "cache-0a1b2c3d.arrow", [100, 101, 102])
    assert rows_of(tmp_path) == [0, 1, 2]
    write_rows(tmp_path / "arm-test.arrow", [3])
    with pytest.raises(MetadataError, match="several splits: 'train', 'test'"):
        open_shards(tmp_path)
    assert rows_of(tmp_path / "arm-test.arrow") == [3]


def test_what_is_no_store_is_named(tmp_path):
    with pytest.raises(MissingFileError, match=r"no such file or folder: .*nowhere"):
        open_shards(tmp_path / "nowhere")
    (tmp_path / "a.parquet").touch()
    with pytest.raises(MissingFileError, match="holds Parquet files"):
        open_shards(tmp_path)


def test_lists_of_lists_are_read_as_arrays_once_declared(tmp_path):
    grids = [[[1, 2, 3], [4, 5, 6]], None, [[7, 8, 9], [10, 11, 12]]]
    table = pa.table({"grid": pa.array([grids[0], *grids], GRID)})
    feather.write_feather(table, tmp_path / "a.arrow", compression="uncompressed")
    store = open_shards(tmp_path, features={"grid": Array((2, 3), "float32")})
    np.testing.assert_array_equal(store[3]["grid"], grids[2])
    assert store[2]["grid"] is None
    np.testing.assert_array_equal(store[[3, 0]]["grid"], [grids[2], grids[0]])
    sliced = Store.from_table(table.slice(3), features={"grid": Array((2, 3), "float32")})
    np.testing.assert_array_equal(sliced[:]["grid"], [grids[2]])


@pytest.mark.parametrize("grid", [[[1, 2]], [[1, 2, 3]], [[1, 2, 3], None], []])
def test_lists_that_do_not_have_the_declared_shape_are_refused(grid):
    table = pa.table({"grid": pa.array([grid], GRID)})
    with pytest.raises(CorruptFileError, match=r"shape \(2, 3\) is stored as lists"):
        _ = Store.from_table(table, features={"grid": Array((2, 3), "float32")})[0]


def test_lists_are_declared_with_their_own_numbers_and_depth():
    table = pa.table({"grid": pa.array([[[1.0]]], GRID)})
    for feature in (Array((1, 1), "float64"), Array((1,), "float32"), Array((1,) * 3, "float32")):
        with pytest.raises(MetadataError, match="cannot be read as Array"):
            Store.from_table(table, features={"grid": feature})


def test_tensors_of_a_fixed_shape_keep_it(tmp_path):
    stored = pa.array([[1, 2, 3, 4], None, [5, 6, 7, 8]], pa.list_(pa.int32(), 4))
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), [2, 2]), stored)
    table = pa.table({"tensor": tensors})
    feather.write_feather(table, tmp_path / "a.arrow", compression="uncompressed")
    store = open_shards(tmp_path)
    assert store.features == {"tensor": Array((2, 2), "int32")}
    assert store[2]["tensor"].tolist() == [[5, 6], [7, 8]]
    assert store[1]["tensor"] is None


def test_a_null_inside_an_array_is_refused_beside_null_arrays_too():
    with pytest.raises(MissingValueError, match="There are 1 nulls inside"):
        _ = Store.from_table(pa.table({"a": pa.array([[1, None], None], PAIR)}))[0]
    halves = pa.FixedSizeListArray.from_arrays(pa.array([1, 2]), 1, mask=pa.array([False, True]))
    nested = pa.FixedSizeListArray.from_arrays(halves, 2)
    with pytest.raises(MissingValueError, match="There are 1 nulls inside"):
        _ = Store.from_table(pa.table({"a": nested}))[0]


def test_nulls_outside_of_a_slice_do_not_count():
    table = pa.table({"a": pa.array([[1, None], None, [3, 4]], PAIR)}).slice(2)
    assert Store.from_table(table)[:]["a"].tolist() == [[3, 4]]
