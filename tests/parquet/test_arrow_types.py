"""Arrow's numbers as NumPy's."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.parquet.arrow_types import plain_numbers
from tests.factory import write_dataset_v2

TYPES = [
    *(pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()),
    *(pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(values=st.lists(st.integers(0, 1), max_size=40), start=st.integers(0, 40))
def test_slices_of_every_type_are_those_of_pyarrow(kind, values, start):
    array = pa.array(np.asarray(values, np.uint8)).cast(kind)[start:]
    converted = plain_numbers(array)
    expected = array.to_numpy(zero_copy_only=False)
    assert converted.dtype == expected.dtype
    np.testing.assert_array_equal(converted, expected)


@pytest.mark.parametrize("parts", [[], [[]], [[1, 2], [], [3]]])
def test_columns_in_parts_become_one_array(parts):
    column = pa.chunked_array([pa.array(part, pa.int64()) for part in parts], pa.int64())
    assert plain_numbers(column).tolist() == column.to_pylist()
    assert plain_numbers(column).dtype == np.int64


def test_opening_and_reading_import_neither_pandas_nor_arrows_functions(tmp_path):
    write_dataset_v2(tmp_path / "data", [4, 5])
    script = (
        "import sys, roboreel\n"
        f"dataset = roboreel.open_dataset({str(tmp_path / 'data')!r})\n"
        "dataset.read([1, 7], windows={'action': roboreel.Window(frames=range(3))})\n"
        "print([name for name in ('pandas', 'pyarrow.compute') if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
