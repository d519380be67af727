"""Footers narrowed to some columns: the same values as from the whole footer, or no narrowing."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roboreel.errors import DatasetError
from roboreel.parquet import narrow
from roboreel.parquet.extents import chunks
from roboreel.parquet.extents.chunks import spelled_path
from roboreel.parquet.parquet_table import open_parquet

WANTED = {"number", "maybe", "time", "tasks", "a.b"}


@pytest.fixture(autouse=True)
def _narrow_all(monkeypatch):
    monkeypatch.setattr(narrow, "LARGE_FOOTER_BYTES", 0)
    monkeypatch.setattr(chunks, "_MANY", 1)


def table(rows: int = 95) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "noise": rng.normal(size=rows),
            "number": np.arange(rows) * 3,
            "stats/x/mean": [[float(i), 1.0] for i in range(rows)],
            "maybe": [None if i % 7 == 0 else i for i in range(rows)],
            "time": rng.normal(size=rows),
            "tasks": [["pick"] * (i % 3) if i % 11 else None for i in range(rows)],
            "a.b": np.arange(rows) % 2 == 0,
            "words": [f"number and tasks {i}" for i in range(rows)],
        }
    )


def read(path, only=None):
    with open_parquet(path, only) as opened:
        names = ["number", "maybe", "time"]
        opened.prefetch([*names, "tasks", "a.b"])
        lists = opened.text_lists("tasks")
        texts = [
            [lists.texts[c] for c in lists.codes[a:b]]
            for a, b in zip(lists.bounds[:-1], lists.bounds[1:], strict=True)
        ]
        return {n: v.tolist() for n, v in opened.numbers(names).items()} | {
            "tasks": texts,
            "rows": opened.num_rows,
        }


@pytest.mark.parametrize(
    ("compression", "dictionary", "group_rows", "page_version"),
    [
        ("SNAPPY", True, 10, "1.0"),
        ("SNAPPY", False, 1000, "1.0"),
        ("NONE", True, 30, "2.0"),
        ("NONE", False, 1, "1.0"),
        ("ZSTD", True, 10, "1.0"),
    ],
)
def test_values_are_those_of_the_whole_footer(
    compression, dictionary, group_rows, page_version, tmp_path
):
    path = tmp_path / "a.parquet"
    pq.write_table(
        table(),
        path,
        row_group_size=group_rows,
        compression=compression,
        use_dictionary=dictionary,
        data_page_version=page_version,
    )
    assert repr(read(path, WANTED.__contains__)) == repr(read(path))


def test_columns_that_are_not_wanted_are_not_parsed(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=10)
    with open_parquet(path, WANTED.__contains__) as opened:
        assert set(opened.column_names) == WANTED


def test_a_small_footer_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(narrow, "LARGE_FOOTER_BYTES", 10**6)
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=10)
    with open_parquet(path, WANTED.__contains__) as opened:
        assert "noise" in opened.column_names


def test_a_text_that_looks_like_a_column_does_no_harm(tmp_path):
    path = tmp_path / "a.parquet"
    looks = table().append_column("also", [[spelled_path(["number"]).decode("latin-1")] * 95])
    pq.write_table(looks.select(["also", *table().column_names]), path, row_group_size=10)
    assert repr(read(path, WANTED.__contains__)) == repr(read(path))


def test_a_damaged_footer_is_left_to_pyarrow_or_stays_inside_the_file(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(40), path, row_group_size=10)
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    rng = np.random.default_rng(1)
    for place in rng.integers(len(content) - 8 - length, len(content) - 8, 150).tolist():
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(0, 8))
        footer = bytes(damaged[-8 - length : -8])
        found = narrow.narrow_footer(footer, WANTED.__contains__, len(content))
        for spans in () if found is None else found.spans.values():
            assert (spans.start >= 0).all()
            assert (spans.stop <= len(content)).all()
            assert (spans.num_values >= 0).all()


def test_pages_that_claim_more_than_fits_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    rows = pa.table({"number": np.zeros(200_000, np.int64), "words": ["x" * 40] * 200_000})
    pq.write_table(rows, path, row_group_size=2000)
    with open_parquet(path, {"number", "words"}.__contains__) as opened:
        monkeypatch.setattr("roboreel.parquet.parquet_table._LEAST_LIMIT_BYTES", 0)
        monkeypatch.setattr("roboreel.parquet.parquet_table._PYTHON_SHARE", 2**9)
        with pytest.raises(DatasetError, match="memory"):
            opened.arrays(["words"])
