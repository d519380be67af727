"""Datasets of a few kilobytes that unpack to gigabytes."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.schema import Feature
from tests.factory import edit_info, write_dataset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["BOMBS", "rows_per_page"]

_ROWS = 40_000
# Newer versions end a page after 20,000 rows unless told otherwise; older ones have no such limit.
_LIMITS_ROWS = "max_rows_per_page" in inspect.signature(pq.write_table).parameters


def rows_per_page(rows: int) -> dict[str, Any]:
    """Return the option of pyarrow for pages of so many rows; older versions have no limit."""
    return {"max_rows_per_page": rows} if _LIMITS_ROWS else {}


def _data_file(root: Path) -> Path:
    (path,) = root.glob("data/*/*.parquet")
    return path


def _grow(root: Path, rows: int) -> pa.Table:
    """Give a dataset of one episode more rows, and return its table."""
    for path in root.glob("meta/episodes/*/*.parquet"):
        table = pq.read_table(path)
        for name, value in (("length", rows), ("dataset_to_index", rows)):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(place), pa.array([value]))
        pq.write_table(table, path)
    zeros = np.zeros(rows, np.int64)
    counts = np.arange(rows)
    return pa.table(
        {
            "timestamp": (counts / 30).astype(np.float32),
            "frame_index": counts,
            "episode_index": zeros,
            "index": counts,
            "task_index": zeros,
        }
    )


def texts(root: Path) -> None:
    """A sentence of 100 KB in a dictionary, in every row: 4 GB."""
    write_dataset(root, [4], features={"note": Feature("string", (1,))})
    table = _grow(root, _ROWS)
    indices = pa.array(np.zeros(_ROWS, np.int32))
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 100_000]))
    pq.write_table(table.append_column("note", column), _data_file(root), compression="zstd")


def constants(root: Path) -> None:
    """A number that never changes: 6 million rows, 192 MB."""
    rows = 6_000_000
    write_dataset(root, [4], features={"observation.state": Feature("float64", (4,))})
    table = _grow(root, rows)
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(rows * 4)), 4)
    table = table.append_column("observation.state", values)
    pq.write_table(table, _data_file(root), row_group_size=rows, compression="zstd")


def pictures(root: Path) -> None:
    """One picture, of which each row says that it is the same as the one before: 3 GB."""
    write_dataset(root, [4], features={"camera": Feature("image", (8, 12, 3))})
    table = _grow(root, 30_000)
    noise = np.random.default_rng(0).integers(0, 256, (200, 170, 3), dtype=np.uint8)
    picture = imagecodecs.png_encode(noise)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    parts = [
        pa.StructArray.from_arrays(
            [pa.array([picture] * 100, pa.binary()), pa.array(["p"] * 100)], fields=list(kind)
        )
    ] * 300
    table = table.append_column("camera", pa.chunked_array(parts))
    pq.write_table(
        table,
        _data_file(root),
        row_group_size=30_000,
        use_dictionary=False,
        column_encoding={"camera.bytes": "DELTA_BYTE_ARRAY"},
        compression="zstd",
        write_statistics=False,
    )


def shapes(root: Path) -> None:
    """A feature whose declared shape has 2^31 elements."""
    write_dataset(root, [4])
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["observation.state"]["shape"] = [2**31 - 1]
    info["features"]["action"]["shape"] = [2**15, 2**15]
    edit_info(root, features=info["features"])


def tasks(root: Path) -> None:
    """A table of tasks whose texts are 4 GB."""
    write_dataset(root, [4])
    indices = pa.array(np.zeros(_ROWS, np.int32))
    texts = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 100_000]))
    table = pa.table({"task_index": np.arange(_ROWS), "task": texts})
    pq.write_table(table, root / "meta/tasks.parquet", compression="zstd")


def packed(root: Path) -> None:
    """Zeros in one page that unpacks to 77 MB, though a row takes a kilobyte."""
    rows, width = 75_000, 128
    write_dataset(root, [4], features={"observation.state": Feature("float64", (width,))})
    table = _grow(root, rows)
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * width)), width)
    pq.write_table(
        table.append_column("observation.state", values),
        _data_file(root),
        row_group_size=rows,
        use_dictionary=False,
        compression="zstd",
        data_page_size=2**30,
        write_batch_size=rows * width,
        **rows_per_page(rows),
    )


def lists(root: Path) -> None:
    """Two sentences of 100 KB in a dictionary, in every row: 8 GB in lists."""
    write_dataset(root, [4], features={"note": Feature("string", (2,))})
    table = _grow(root, _ROWS)
    indices = pa.array(np.tile(np.arange(2, dtype=np.int32), _ROWS))
    texts = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 100_000, "y" * 100_000]))
    offsets = pa.array(np.arange(0, 2 * _ROWS + 1, 2, dtype=np.int32))
    column = pa.ListArray.from_arrays(offsets, texts)
    pq.write_table(table.append_column("note", column), _data_file(root), compression="zstd")


BOMBS: dict[str, Callable[[Path], Any]] = {
    made.__name__: made for made in (texts, lists, constants, pictures, shapes, tasks, packed)
}
