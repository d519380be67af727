"""Columns of numbers gathered from mapped files in one step: the same as batch by batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboreel.shards import Array, Value, batches, open_shards, write_shards

FEATURES = {
    "state": Array((3,), "float32"),
    "grid": Array((2, 2), "int16"),
    "time": Value("float64"),
    "done": Value("bool"),
    "word": Value("string"),
}
ROWS = 60


def examples(count=ROWS):
    for row in range(count):
        yield {
            "state": np.arange(3, dtype=np.float32) + row,
            "grid": np.full((2, 2), row, np.int16),
            "time": row / 30,
            "done": row % 7 == 0,
            "word": f"row {row}",
        }


@pytest.fixture(scope="module", params=[1, 3])
def store_path(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "shards"
    size = "1GB" if request.param == 1 else "900"
    write_shards(examples(), FEATURES, path, batch_size=7, shard_size=size)
    return path


@settings(deadline=None)
@given(rows=st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=80))
def test_rows_in_any_order_are_those_of_the_batches(store_path, rows):
    plain, flat = open_shards(store_path), open_shards(store_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_MANY_ROWS", 10**9)
        expected = plain.take(rows)
        one_by_one = {name: plain.take(rows, features=[name])[name] for name in FEATURES}
        patch.setattr(batches, "_MANY_ROWS", 1)
        for name, wanted in expected.items():
            found = flat.take(rows, features=[name])[name]
            assert np.asarray(found).dtype == np.asarray(wanted).dtype
            assert np.array_equal(found, wanted)
            assert np.array_equal(found, one_by_one[name])


def test_numbers_are_gathered_in_one_step_and_texts_are_not(store_path, monkeypatch):
    monkeypatch.setattr(batches, "_MANY_ROWS", 1)
    store = open_shards(store_path)
    store.take([5, 3, 3], features=["state"])
    table = store._columns[0].table
    assert table._flat("state") is not None
    assert table._flat("grid") is not None
    assert table._flat("word") is None
    assert table._flat("done") is None  # Eight to a byte.


def test_what_is_gathered_belongs_to_the_caller(store_path, monkeypatch):
    monkeypatch.setattr(batches, "_MANY_ROWS", 1)
    store = open_shards(store_path)
    taken = store.take([5, 3, 9], features=["state"])["state"]
    taken[...] = 0
    assert store.take([5, 3, 9], features=["state"])["state"][0, 0] == 5


def test_with_more_files_than_may_be_open_rows_come_batch_by_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_MANY_ROWS", 1)
    write_shards(examples(), FEATURES, tmp_path / "shards", batch_size=5, shard_size="900")
    store = open_shards(tmp_path / "shards", max_open=1)
    assert store.num_shards > 1
    assert store.take([59, 0, 31])["time"].tolist() == [59 / 30, 0, 31 / 30]
    assert store._columns[0].table._flat("time") is None
