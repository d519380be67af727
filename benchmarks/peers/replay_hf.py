"""What Hugging Face datasets does for a replay buffer; runs in the peers' environment."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.workload import WINDOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.meter import Meter

CONTENDER = "HF datasets"


def replay(meter: Meter, root: str, length: int, batch: int, count: int) -> None:
    """Draw single frames and windows from a table on disk, which cannot grow or change."""
    import numpy as np

    table = _table(Path(root))
    frames = len(table)
    with meter.step(f"draw a frame, in batches of {batch}", batch * count):
        for seed in range(count):
            table[np.random.default_rng(seed).integers(0, frames, batch)]
    with meter.step(f"draw a window, in batches of {batch}", batch * count):
        for seed in range(count):
            _windows(table, np.random.default_rng(seed).integers(0, frames, batch), length)
    first = _windows(table, np.random.default_rng(0).integers(0, frames, batch), length)["action"]
    meter.note(frames=frames, checksum=float(first.sum(dtype="float64")))


def _windows(table: Any, rows: NDArray[Any], length: int) -> dict[str, Any]:  # noqa: ANN401
    import numpy as np

    start = (rows - rows % length)[:, None]
    sample = {"priority": table.select_columns("priority")[rows]["priority"]}
    for name, offsets in (("action", np.arange(WINDOW)), ("state", np.array([-1, 0]))):
        wanted = rows[:, None] + offsets
        inside = np.clip(wanted, start, start + length - 1)
        found = table.select_columns(name)[inside.reshape(-1)][name]
        sample[name] = found.reshape(*inside.shape, -1)
        sample[f"{name}_is_pad"] = wanted != inside
    return sample


def _table(root: Path) -> Any:  # noqa: ANN401  # a datasets.Dataset
    import numpy as np
    import pyarrow as pa
    from datasets import Dataset

    columns = {}
    for name in ("state", "action", "priority"):
        array = np.load(root / f"{name}.npy")
        flat = pa.array(array.reshape(-1))
        columns[name] = (
            pa.FixedSizeListArray.from_arrays(flat, array.shape[1]) if array.ndim > 1 else flat
        )
    saved = tempfile.mkdtemp()
    Dataset(pa.table(columns)).save_to_disk(saved)
    return Dataset.load_from_disk(saved).with_format("numpy")
