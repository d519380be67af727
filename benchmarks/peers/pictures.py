"""What other readers do with pictures in Parquet; runs in the peers' environment."""

from __future__ import annotations

import mmap
import tempfile
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.picture_reads import CAMERA, measure_bytes, measure_pixels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.meter import Meter

FLAT = "flat mmap"
HF_DATASETS = "HF datasets"
HF_ONE_COLUMN = "HF datasets, one column"
HF_IN_MEMORY = "HF datasets in memory"
LANCE = "Lance"
ROW_GROUPS = "row groups, LRU"


def flat(meter: Meter, root: str, reads: int, decodes: int) -> None:
    """Copy the pictures one after another into a file, and slice its map: the limit."""
    import numpy as np

    path, lengths = Path(tempfile.gettempdir(), "flat"), [0]
    with meter.step("open"):
        with path.open("wb") as file:
            for pictures in _row_groups(root):
                lengths += [file.write(picture) for picture in pictures.to_pylist()]
        with path.open("rb") as written:
            mapped = mmap.mmap(written.fileno(), 0, access=mmap.ACCESS_READ)
        bounds = np.cumsum(lengths).tolist()

    def one(row: int) -> bytes:
        return mapped[bounds[row] : bounds[row + 1]]

    _read(meter, len(bounds) - 1, reads, decodes, one, lambda rows: [one(row) for row in rows])


def row_groups(meter: Meter, root: str, reads: int, decodes: int, memory: int) -> None:
    """Read row groups with pyarrow, and keep those used last, as many as the budget holds."""
    import numpy as np
    import pyarrow.parquet as pq

    with meter.step("open"):
        files = [pq.ParquetFile(path) for path in _paths(root)]
        groups = [(file, group) for file in files for group in range(file.num_row_groups)]
        sizes = [file.metadata.row_group(group).num_rows for file, group in groups]
    bounds = np.cumsum([0, *sizes])
    largest = max(file.metadata.row_group(group).total_byte_size for file, group in groups)

    @lru_cache(maxsize=max(1, memory // int(largest)))
    def load(group: int) -> Any:  # noqa: ANN401  # pyarrow is untyped
        file, number = groups[group]
        return _pictures(file.read_row_group(number, columns=[CAMERA]))

    def one(row: int) -> bytes:
        group = int(np.searchsorted(bounds, row, side="right")) - 1
        picture: bytes = load(group)[row - int(bounds[group])].as_py()
        return picture

    def many(rows: list[int]) -> list[bytes]:
        found = {row: one(row) for row in sorted(set(rows))}  # each row group once
        return [found[row] for row in rows]

    _read(meter, int(bounds[-1]), reads, decodes, one, many)


def hf_datasets(meter: Meter, root: str, reads: int, decodes: int) -> None:
    """Read rows of the Arrow cache that opening writes, as ``dataset[row]`` gives them."""
    from datasets import Dataset

    with meter.step("open"):
        table = Dataset.from_parquet([str(path) for path in _paths(root)])
    _read_table(meter, table, reads, decodes)


def hf_one_column(meter: Meter, root: str, reads: int, decodes: int) -> None:
    """Read the pictures alone from the Arrow cache that opening writes."""
    from datasets import Dataset

    with meter.step("open"):
        table = Dataset.from_parquet([str(path) for path in _paths(root)]).select_columns([CAMERA])
    _read_table(meter, table, reads, decodes)


def hf_in_memory(meter: Meter, root: str, reads: int, decodes: int) -> None:
    """Read the pictures alone from a table in memory: no copy on disk."""
    import pyarrow.parquet as pq
    from datasets import Dataset

    with meter.step("open"):
        table = Dataset(pq.read_table(Path(root, "data"), columns=[CAMERA]))
    _read_table(meter, table, reads, decodes)


def _read_table(meter: Meter, table: Any, reads: int, decodes: int) -> None:  # noqa: ANN401
    from datasets import Image

    encoded = table.cast_column(CAMERA, Image(decode=False))
    measure_bytes(
        meter,
        len(table),
        reads,
        lambda row: encoded[row][CAMERA]["bytes"],
        lambda rows: [picture["bytes"] for picture in encoded[rows][CAMERA]],
    )
    decoded = table.cast_column(CAMERA, Image()).with_format("numpy")
    measure_pixels(
        meter,
        len(table),
        decodes,
        lambda row: decoded[row][CAMERA],
        lambda rows: decoded[rows][CAMERA],
    )


def lance(meter: Meter, root: str, reads: int, decodes: int) -> None:
    """Copy the pictures into a Lance dataset; take rows from it."""
    import pyarrow as pa
    from lance import write_dataset

    schema = pa.schema([("image", pa.large_binary())])
    batches = (
        pa.RecordBatch.from_arrays([pictures.cast(pa.large_binary())], schema=schema)
        for pictures in _row_groups(root)
    )
    with meter.step("open"):
        table: Any = write_dataset(batches, Path(tempfile.gettempdir(), "lance"), schema=schema)

    def many(rows: list[int]) -> list[bytes]:
        pictures: list[bytes] = table.take(rows).column("image").to_pylist()
        return pictures

    _read(meter, table.count_rows(), reads, decodes, lambda row: many([row])[0], many)


def _read(
    meter: Meter,
    num_rows: int,
    reads: int,
    decodes: int,
    one: Callable[[int], bytes],
    many: Callable[[list[int]], list[bytes]],
) -> None:
    import numpy as np

    measure_bytes(meter, num_rows, reads, one, many)
    measure_pixels(
        meter,
        num_rows,
        decodes,
        lambda row: _decode(one(row)),
        lambda rows: np.stack([_decode(picture) for picture in many(rows)]),
    )


def _decode(picture: bytes) -> Any:  # noqa: ANN401  # an array of pixels
    import numpy as np
    from PIL import Image

    return np.asarray(Image.open(BytesIO(picture)))


def _paths(root: str) -> list[Path]:
    return sorted(Path(root).glob("data/*/*.parquet"))


def _row_groups(root: str) -> Iterator[Any]:
    """Yield the pictures of each row group, as an array of binary."""
    import pyarrow.parquet as pq

    for path in _paths(root):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            yield _pictures(file.read_row_group(group, columns=[CAMERA]))


def _pictures(table: Any) -> Any:  # noqa: ANN401  # pyarrow is untyped
    return table.column(CAMERA).combine_chunks().field("bytes")
