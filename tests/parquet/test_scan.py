"""Columns as they are: nulls, ragged lists and other types do not stop a scan."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roboreel.errors import CorruptFileError
from roboreel.parquet.scan import ScannedFile, join_columns
from tests.surgery import skip_without_null_lists


def scan(tmp_path, **columns):
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    file = ScannedFile(tmp_path / "t.parquet")
    try:
        return file.read([0], list(columns))
    finally:
        file.close()


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)]
)
def test_nulls_are_marked_by_row_and_read_as_zeros(tmp_path, kind):
    if pa.types.is_fixed_size_list(kind):
        skip_without_null_lists()
    column = scan(tmp_path, a=pa.array([[1, 2], None, [3, None], [5, 6]], kind))["a"]
    assert column.nulls.tolist() == [False, True, True, False]
    assert column.values.tolist() == [[1, 2], [0, 0], [0, 0], [5, 6]]
    assert column.values.dtype == np.float32


def test_nested_lists_have_the_shape_they_have(tmp_path):
    nested = [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [0, 1, None]]]
    column = scan(tmp_path, a=pa.array(nested, pa.list_(pa.list_(pa.int64()))))["a"]
    assert column.values.shape == (2, 2, 3)
    assert column.nulls.tolist() == [False, True]


def test_ragged_lists_texts_and_structs_have_no_values(tmp_path):
    columns = scan(
        tmp_path,
        ragged=pa.array([[1], [1, 2]], pa.list_(pa.int64())),
        text=pa.array(["a", None]),
        struct=pa.array([{"x": 1}, {"x": 2}]),
    )
    assert columns["ragged"].values is None
    assert columns["ragged"].lengths == (1, 2)
    assert columns["text"].values is None
    assert columns["text"].nulls.tolist() == [False, True]
    assert columns["struct"].values is None


def test_booleans_and_scalars_with_nulls(tmp_path):
    columns = scan(tmp_path, flag=pa.array([True, None, False]), n=pa.array([None, 1, 2]))
    assert columns["flag"].values.tolist() == [True, False, False]
    assert columns["n"].values.tolist() == [0, 1, 2]
    assert columns["n"].nulls.tolist() == [True, False, False]


def test_parts_of_a_column_are_joined(tmp_path):
    column = scan(tmp_path, a=pa.array([1, None, 3, 4]))["a"]
    again: Any = join_columns(column.rows(0, 2), column.rows(2, 4))
    assert again.values.tolist() == column.values.tolist()
    assert again.nulls.tolist() == column.nulls.tolist()


def test_a_large_row_group_is_read_in_parts(tmp_path):
    pq.write_table(pa.table({"a": np.arange(10)}), tmp_path / "t.parquet")
    file = ScannedFile(tmp_path / "t.parquet")
    parts: list[Any] = [part["a"].values for part in file.read_large(0, ["a"], 4)]
    assert np.concatenate(parts).tolist() == list(range(10))
    assert max(map(len, parts)) == 4
    file.close()


def test_what_is_no_parquet_file_is_an_error(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"nothing")
    with pytest.raises(CorruptFileError, match=r"t\.parquet"):
        ScannedFile(tmp_path / "t.parquet")
