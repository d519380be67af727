"""Episode and task numbers that are no numbers: read or refused with an error of ours."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.errors import CorruptFileError
from tests.factory import write_dataset, write_dataset_v2
from tests.mutation import exercise

ODD = {
    "not a number": float("nan"),
    "infinite": float("inf"),
    "between two numbers": 0.5,
    "negative": -1,
    "too large": 2**62,
    "missing": None,
}


def put(root, column, value):
    """Give a column of the first data file one value in all rows."""
    path = min(root.glob("data/*/*.parquet"))
    table = pq.read_table(path)
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, pa.array([value] * len(table))), path)


@pytest.mark.parametrize("write", [write_dataset, write_dataset_v2])
@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_odd_task_numbers_are_read_or_refused(write, value, tmp_path):
    write(tmp_path / "d", [3, 2])
    put(tmp_path / "d", "task_index", value)
    assert list(check_dataset(tmp_path / "d"))
    exercise("numeric", tmp_path / "d")


@pytest.mark.parametrize("value", [-1, None])
def test_rows_of_an_episode_with_a_negative_number_or_none_are_refused(value, tmp_path):
    write_dataset(tmp_path / "d", [3, 2])
    put(tmp_path / "d", "episode_index", value)
    with pytest.raises(CorruptFileError, match="Run `roboreel check`"):
        reel.open_dataset(tmp_path / "d").episodes[0]["action"]
    assert list(check_dataset(tmp_path / "d"))
