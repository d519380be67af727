"""What Hugging Face datasets does in the benchmarks; runs in the peers' environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.workload import BATCH, WINDOW, batches, random_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.meter import Meter

CONTENDER = "HF datasets"
FEATURES = ["observation.state", "action"]


def read(meter: Meter, root: str, stops: str, rows: int, windows: int) -> None:
    """Read rows and windows, as NumPy arrays, from the Arrow cache that opening writes."""
    import numpy as np
    from datasets import Dataset

    files = [str(path) for path in sorted(Path(root).glob("data/*/*.parquet"))]
    with meter.step("open"):
        table = Dataset.from_parquet(files).select_columns(FEATURES).with_format("numpy")
    stop = np.load(stops)
    chosen = random_rows(len(table), rows)
    with meter.step("one row", rows):
        for row in chosen:
            table[row]
    anchors = random_rows(len(table), windows)
    with meter.step("one window", windows):
        for row in anchors:
            _window(table, row, int(stop[row]))
    grouped = batches(anchors)
    with meter.step(f"a window, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            _batch(table, batch, stop)
    first = _batch(table, anchors[:BATCH], stop)["action"]
    meter.note(frames=len(table), checksum=float(first.sum(dtype="float64")))


def _batch(table: Any, rows: list[int], stop: NDArray[Any]) -> dict[str, Any]:  # noqa: ANN401
    import numpy as np

    taken = [_window(table, row, int(stop[row])) for row in rows]
    return {name: np.stack([window[name] for window in taken]) for name in FEATURES}


def _window(table: Any, row: int, stop: int) -> dict[str, Any]:  # noqa: ANN401
    import numpy as np

    last = min(row + WINDOW, stop)
    missing = ((0, row + WINDOW - last), (0, 0))
    found = table[row:last]
    return {name: np.pad(found[name], missing, mode="edge") for name in FEATURES}
