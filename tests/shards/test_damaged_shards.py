"""Damaged shards raise an error of ours that names the file; found by ``make fuzz``."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from roboreel.errors import CorruptFileError, MetadataError
from roboreel.shards import open_shards, validate_shards, write_shards
from roboreel.shards.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rows = ({"text": f"row {row}"} for row in range(8))
    write_shards(rows, {"text": "string"}, tmp_path / "store", shard_size=100, batch_size=2)
    return tmp_path / "store"


def test_a_text_that_is_not_utf_8_is_an_error_with_the_name_of_its_shard(store):
    (damaged,) = [path for path in store.rglob("*.arrow") if b"row 5" in path.read_bytes()]
    damaged.write_bytes(damaged.read_bytes().replace(b"row 5", b"row \xff"))
    opened = open_shards(store)
    assert opened[4] == {"text": "row 4"}
    for read in (lambda: opened[5], lambda: opened[[0, 5]], lambda: opened[[5, 2]]):
        with pytest.raises(CorruptFileError, match=re.escape(damaged.name)):
            read()


@pytest.mark.parametrize("name", [b"\0\0\0\0", b"\xfftex"])
def test_a_column_whose_name_is_empty_or_not_text_is_an_error(store, name):
    shards = sorted(store.rglob("*.arrow"))
    for path in shards:
        path.write_bytes(path.read_bytes().replace(b"text\0", name + b"\0"))
    with pytest.raises(CorruptFileError, match=re.escape(shards[0].name)):
        open_shards(store)[0]


def test_half_of_a_surrogate_pair_is_no_name_of_a_feature(store):
    (manifest,) = store.rglob("meta.json")
    manifest.write_text(manifest.read_text().replace('"text"', '"\\ud800"'))
    with pytest.raises(MetadataError):
        open_shards(store)
    assert validate_shards(store)


def test_a_table_with_a_column_without_a_name_is_refused():
    with pytest.raises(MetadataError, match="not empty"):
        Store.from_table(pa.table({"": np.arange(3)}))
