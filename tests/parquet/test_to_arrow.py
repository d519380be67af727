"""Arrow arrays made without pandas are those that pyarrow makes."""

import subprocess
import sys

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.parquet.to_arrow import from_list, from_numpy

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats() | st.booleans() | st.text() | st.none()


def columns(values):
    return st.lists(values | st.none(), max_size=5)


UNIFORM = st.one_of(
    *(columns(one) for one in (st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans())),
    columns(st.text(st.characters(exclude_categories=["Cs"]))),
    columns(columns(st.floats(allow_nan=False))),
    columns(columns(columns(st.integers(0, 9)))),
    columns(columns(st.text("ab"))),
)


@given(values=UNIFORM)
def test_lists_become_what_pyarrow_makes_of_them(values):
    ours, theirs = from_list(values), pa.array(values)
    ours.validate(full=True)
    assert ours.type == theirs.type
    assert str(ours.to_pylist()) == str(theirs.to_pylist())


@given(values=st.lists(NUMBERS, max_size=4), kind=st.sampled_from(["int64", "double", "string"]))
def test_values_that_cannot_have_a_type_are_refused_as_pyarrow_does(values, kind):
    kind = pa.type_for_alias(kind)
    try:
        theirs = pa.array(values, kind)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
        with pytest.raises(type(error)):
            from_list(values, kind)
    else:
        assert str(from_list(values, kind)) == str(theirs)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", ">i4"])
def test_numpy_arrays_become_what_pyarrow_makes_of_them(dtype):
    values = np.arange(20).astype(dtype)[::2]
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    assert from_numpy(values).equals(pa.array(values))


def test_texts_of_numpy_become_texts():
    values = np.array(["one", "zwölf"], dtype=object)
    assert from_numpy(values).equals(pa.array(["one", "zwölf"]))


def test_an_edit_does_not_import_pandas(tmp_path):
    make_demo_dataset(tmp_path / "a", DemoSpec(2, 6, size=(32, 32)))
    code = """
import sys
from roboreel.edit import edit_dataset, plan_conversion, plan_merge
old = sys.argv[1] + "/a"
plan_merge([old, old], sys.argv[1] + "/b").apply()
plan_conversion(old, "v2.1", sys.argv[1] + "/c").apply(verify=True)
plan_conversion(sys.argv[1] + "/c", "v3.0", sys.argv[1] + "/d").apply(verify=True)
edit_dataset(sys.argv[1] + "/b").delete([1]).trim(0, start=2).apply()
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


@given(shape=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_arrays_of_several_axes_become_lists(shape):
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    array = from_numpy(values)
    array.validate(full=True)
    assert array.to_pylist() == values.tolist()
    assert array.type == pa.array(np.ones([1] * len(shape)).tolist()).type
