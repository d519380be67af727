"""roboreel reads numbers: single rows, and windows of the state and the action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.workload import BATCH, WINDOW, batches, random_rows, shuffled_rows

if TYPE_CHECKING:
    from benchmarks.meter import Meter

FEATURES = ["observation.state", "action"]


def read(meter: Meter, root: str, rows: int, windows: int) -> None:
    """Read rows one by one, windows one by one, and windows in batches."""
    from roboreel import open_dataset
    from roboreel.window import Window

    with meter.step("open"):
        dataset = open_dataset(root)
    around = {name: Window(frames=range(WINDOW)) for name in FEATURES}
    chosen = random_rows(len(dataset), rows)
    with meter.step("one row", rows):
        for row in chosen:
            dataset.read([row], FEATURES)
    anchors = random_rows(len(dataset), windows)
    with meter.step("one window", windows):
        for row in anchors:
            dataset.read([row], FEATURES, windows=around)
    grouped = batches(anchors)
    with meter.step(f"a window, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            dataset.read(batch, FEATURES, windows=around)
    first = dataset.read(anchors[:BATCH], FEATURES, windows=around)["action"]
    meter.note(frames=len(dataset), checksum=float(first.sum(dtype="float64")))


def epochs(meter: Meter, root: str, count: int) -> None:
    """Read a window around every row, in random order, for several epochs."""
    from roboreel import open_dataset
    from roboreel.window import Window

    dataset = open_dataset(root)
    around = {name: Window(frames=range(WINDOW)) for name in FEATURES}
    for epoch in range(count):
        grouped = batches(shuffled_rows(len(dataset), epoch))
        with meter.step(f"epoch {epoch + 1}", BATCH * len(grouped)):
            for batch in grouped:
                dataset.read(batch, FEATURES, windows=around)
