"""Byte strings read where they lie, compared with pyarrow's own reading."""

import itertools
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    FeatureNotFoundError,
    MissingFileError,
    RowNotFoundError,
)
from roboreel.storage.budget import Budget
from roboreel.storage.extents import ByteColumn

SHARED = Path(__file__).resolve().parents[2] / "shared"
CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
COLUMN = ("image", "bytes")


def values_of(kind: str, count: int) -> list[bytes]:
    rng = np.random.default_rng(len(kind))
    if kind == "compressible":
        return [b"row %d " % row * 40 for row in range(count)]
    if kind == "incompressible":
        return [rng.bytes(3000 + row) for row in range(count)]
    if kind == "long":
        return [rng.bytes(70_000 + row) + b"ab" * 500 for row in range(count)]
    if kind == "half":  # literals and copies side by side, as in real PNG files
        return [rng.bytes(900) + b"\0" * 300 + rng.bytes(200) for _ in range(count)]
    return [b""] * count


KINDS = ["compressible", "incompressible", "long", "half", "empty"]


def write(path: Path, values: list[bytes | None], **options) -> Path:
    inner = pa.array(values, pa.binary())
    path_array = pa.array(["x"] * len(values), pa.string())
    null = np.array([value is None and row % 2 == 0 for row, value in enumerate(values)])
    structs = pa.StructArray.from_arrays(
        [inner, path_array], ["bytes", "path"], mask=pa.array(null) if null.any() else None
    )
    number = pa.array(np.arange(len(values)))
    pq.write_table(pa.table({"number": number, "image": structs, "plain": inner}), path, **options)
    return path


def check(path: Path, column: tuple[str, ...], values: list[bytes | None], limit: int = 2**28):
    with ByteColumn(path, column, budget=Budget(limit)) as opened:
        assert opened.num_rows == len(values)
        rows = np.random.default_rng(0).permutation(len(values))
        assert opened.read(rows) == [values[row] for row in rows]
        assert opened.read([len(values) - 1, 0, 0]) == [values[-1], values[0], values[0]]
        return opened.rungs()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_way_to_write_is_read_as_pyarrow_reads_it(tmp_path, codec, kind):
    layouts = itertools.product(
        [True, False], ["1.0", "2.0"], [False, True], [7, 1000], [100, 2**20]
    )
    for number, (dictionary, version, nulls, group, page_bytes) in enumerate(layouts):
        values: list[bytes | None] = list(values_of(kind, 24))
        if nulls:
            values[3:6] = [None] * 3
            values[20] = None
        path = write(
            tmp_path / f"{number}.parquet",
            values,
            compression=codec,
            use_dictionary=dictionary,
            data_page_version=version,
            row_group_size=group,
            data_page_size=page_bytes,
            write_batch_size=3,
            dictionary_pagesize_limit=20_000 if page_bytes == 100 else 2**20,
        )
        expected = pq.read_table(path)["plain"].to_pylist()
        assert expected == values
        rungs = check(path, COLUMN, values)
        assert check(path, ("plain",), values) == rungs
        assert "row group" not in rungs
