"""roboreel reads windows at random, with less memory than the numbers take."""

from __future__ import annotations

import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks.workload import BATCH, WINDOW, batches

if TYPE_CHECKING:
    from benchmarks.meter import Meter
    from roboreel import Dataset

FEATURES = ["observation.state", "action"]
_EPOCHS = 4


def windows(meter: Meter, root: str, count: int, memory: str) -> None:
    """Read windows in batches; the first rounds find nothing in memory."""
    from roboreel import open_dataset

    _read(meter, open_dataset(root, memory=memory), count, threads=1)


def in_threads(meter: Meter, root: str, count: int, memory: str) -> None:
    """Read windows in batches, four at a time."""
    from roboreel import open_dataset

    _read(meter, open_dataset(root, memory=memory), count, threads=4)


def mapped(meter: Meter, root: str, count: int, memory: str) -> None:
    """Read windows from a mapped copy, which is written before."""
    from roboreel import open_dataset

    _read(meter, open_dataset(root, memory=memory, numbers="mapped"), count, threads=1)


def _read(meter: Meter, dataset: Dataset, count: int, threads: int) -> None:
    from roboreel import Window

    around = {name: Window(frames=range(WINDOW)) for name in FEATURES}
    warnings.simplefilter("ignore")  # It says that the budget is small, which it is on purpose.
    with ThreadPoolExecutor(threads) as pool:
        for epoch in range(_EPOCHS):
            rows = random.Random(epoch).choices(range(len(dataset)), k=count)
            grouped = batches(rows)
            with meter.step(f"round {epoch + 1}", BATCH * len(grouped)):
                for _ in pool.map(lambda b: dataset.read(b, FEATURES, windows=around), grouped):
                    pass
    memory = dataset.memory
    meter.note(counted_mb=round(memory.held_bytes / 1e6, 1), frames=len(dataset))
