"""Numbers beyond the budget, read by row group: the same values as any other way."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.errors import CorruptFileError
from roboreel.frames.columns import Columns
from roboreel.frames.frame_reader import FrameReader
from roboreel.io.budget import Budget
from tests.factory import write_dataset

LENGTHS = [150, 1, 90, 300, 7]
NUMBERS = ["observation.state", "action", "timestamp", "index", "mode"]


def rewrite(root, rows, **options):
    for path in sorted((root / "data").rglob("*.parquet")):
        pq.write_table(pq.read_table(path), path, row_group_size=rows, **options)


def columns_of(root, limit_bytes):
    return FrameReader(reel.open_dataset(root).manifest, Budget(limit_bytes)).columns


def windows(seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, sum(LENGTHS), 20)[:, None] + np.arange(12)
    return np.minimum(rows, sum(LENGTHS) - 1).reshape(-1)


@pytest.fixture
def never_dense(monkeypatch):
    monkeypatch.setattr(Columns, "_fits", lambda *_: False)


@pytest.mark.parametrize("rows", [1, 7, 60, 10_000])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("compression", ["SNAPPY", "NONE"])
@pytest.mark.parametrize("limit_bytes", [600, 7000])
def test_values_are_those_of_the_whole_column(rows, dictionary, compression, limit_bytes, tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=2)
    rewrite(tmp_path, rows, use_dictionary=dictionary, compression=compression)
    large, small = columns_of(tmp_path, 2**29), columns_of(tmp_path, limit_bytes)
    for seed in range(3):
        for name in ("observation.state", "action"):
            asked = windows(seed)
            expected = large.gather(name, asked)
            found = small.gather(name, asked)
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected)
    assert "row groups" in small.rung("action")


@pytest.mark.parametrize(
    "options",
    [{"compression": "ZSTD"}, {"data_page_version": "2.0"}, {"data_page_size": 100}],
    ids=["zstd", "version 2", "many pages"],
)
def test_pages_of_any_form_are_read(options, tmp_path):
    write_dataset(tmp_path, LENGTHS)
    rewrite(tmp_path, 60, **options)
    large, small = columns_of(tmp_path, 2**29), columns_of(tmp_path, 600)
    for name in NUMBERS:
        assert np.array_equal(small.gather(name, windows()), large.gather(name, windows()))


def test_files_of_several_forms_are_read_side_by_side(tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=1)
    paths = sorted((tmp_path / "data").rglob("*.parquet"))
    for number, path in enumerate(paths):
        table = pq.read_table(path)
        if number == 1:
            place = table.schema.get_field_index("action")
            wider = table["action"].cast(pa.list_(pa.float64()))
            table = table.set_column(place, "action", wider)
        pq.write_table(table, path, row_group_size=40, compression=["SNAPPY", "NONE"][number % 2])
    large, small = columns_of(tmp_path, 2**29), columns_of(tmp_path, 600)
    for _ in range(2):
        assert np.array_equal(small.gather("action", windows()), large.gather("action", windows()))


def test_what_is_held_stays_within_the_budget_and_is_counted(tmp_path, never_dense):
    write_dataset(tmp_path, LENGTHS)
    rewrite(tmp_path, 10)
    budget = Budget(100_000)
    columns = FrameReader(reel.open_dataset(tmp_path).manifest, budget).columns
    for seed in range(10):
        columns.gather("observation.state", windows(seed))
        assert budget.held_bytes <= 100_000
    assert set(budget.held_by_owner()) <= {"row groups", "open files"}


@pytest.mark.parametrize("limit_bytes", [600, 2**29])
def test_a_damaged_page_is_an_error_of_its_own_rows_alone(limit_bytes, tmp_path):
    write_dataset(tmp_path, [40] * 4, episodes_per_file=4)
    rewrite(tmp_path, 40)
    (path,) = (tmp_path / "data").rglob("*.parquet")
    names = pq.read_schema(path).names
    chunk = pq.read_metadata(path).row_group(2).column(names.index("action"))
    content = bytearray(path.read_bytes())
    place = chunk.dictionary_page_offset
    content[place + 15 : place + chunk.total_compressed_size] = bytes(
        chunk.total_compressed_size - 15
    )
    path.write_bytes(content)
    columns = columns_of(tmp_path, limit_bytes)
    columns.gather("action", np.arange(80))
    with pytest.raises(CorruptFileError):
        columns.gather("action", np.arange(80, 120))
    columns.gather("action", np.arange(120, 160))


def test_a_file_that_was_replaced_is_noticed(tmp_path, never_dense):
    write_dataset(tmp_path, [40] * 4, episodes_per_file=4)
    rewrite(tmp_path, 40)
    columns = columns_of(tmp_path, 10**6)
    columns.gather("action", np.arange(10))
    (path,) = (tmp_path / "data").rglob("*.parquet")
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    columns._files._arrow_files.drop(columns._files.open(0)._key)
    with pytest.raises(CorruptFileError, match="Open the dataset again"):
        columns.gather("action", np.arange(60, 70))


# Whether a row group is read again depends on which thread comes first.
@pytest.mark.filterwarnings("ignore:Numbers do not fit")
def test_threads_get_the_same_values(tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=1)
    rewrite(tmp_path, 20)
    large, small = columns_of(tmp_path, 2**29), columns_of(tmp_path, 4000)

    def is_same(seed):
        asked = windows(seed)
        return np.array_equal(small.gather("action", asked), large.gather("action", asked))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(is_same, range(60)))
