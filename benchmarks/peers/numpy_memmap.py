"""What NumPy does with numbers in a flat file: the limit, for whoever can afford the copy."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.workload import BATCH, WINDOW, batches, random_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.meter import Meter

CONTENDER = "NumPy memmap"
FEATURES = ("observation.state", "action")


def read(meter: Meter, root: str, stops: str, rows: int, windows: int) -> None:
    """Copy the numbers to a flat file; read rows and windows from it."""
    with meter.step("open"):
        table = _flat(Path(root))
    stop = np.load(stops)
    chosen = random_rows(len(table), rows)
    with meter.step("one row", rows):
        for row in chosen:
            np.array(table[row])
    anchors = random_rows(len(table), windows)
    offsets = np.arange(WINDOW)
    with meter.step("one window", windows):
        for row in anchors:
            table[np.minimum(row + offsets, stop[row] - 1)]
    grouped = batches(anchors)
    with meter.step(f"a window, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            _windows(table, np.array(batch), stop, offsets)
    first = _windows(table, np.array(anchors[:BATCH]), stop, offsets)
    action = first[..., table.shape[1] // 2 :]
    meter.note(frames=len(table), checksum=float(action.sum(dtype="float64")))


def _windows(
    table: NDArray[np.float32],
    rows: NDArray[np.int64],
    stop: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> NDArray[np.float32]:
    wanted: NDArray[np.int64] = np.minimum(rows[:, None] + offsets, stop[rows, None] - 1)
    return table[wanted]


def _flat(root: Path) -> Any:  # noqa: ANN401  # a memmap, which is not generic
    parts = []
    for path in sorted(root.glob("data/*/*.parquet")):
        frames = pq.read_table(path, columns=list(FEATURES))
        columns = [frames.column(name).combine_chunks() for name in FEATURES]
        flat = [np.asarray(column.flatten()).reshape(len(frames), -1) for column in columns]
        parts.append(np.concatenate(flat, axis=1))
    file = Path(tempfile.gettempdir(), "flat.npy")
    np.save(file, np.concatenate(parts))
    return np.load(file, mmap_mode="r")
