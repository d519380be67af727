"""roboreel reads pictures where they lie in Parquet: as bytes, as pixels, and with actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.picture_reads import CAMERA, measure_bytes, measure_pixels, measure_samples
from benchmarks.workload import BATCH, WINDOW, batches, random_rows, shuffled_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.meter import Meter
    from roboreel import Dataset


def read(meter: Meter, root: str, memory: int, reads: int, decodes: int, samples: int) -> None:
    """Read random pictures, and random samples of a picture and the actions after it."""
    from roboreel import Window, open_dataset

    with meter.step("open"):
        dataset = open_dataset(root, memory=memory)
    count = len(dataset)
    measure_bytes(meter, count, reads, *_readers_of_bytes(dataset))
    measure_pixels(
        meter,
        count,
        decodes,
        lambda row: dataset.read([row], [CAMERA]),
        lambda rows: dataset.read(rows, [CAMERA])[CAMERA],
    )
    after = {"action": Window(frames=range(WINDOW))}
    measure_samples(meter, count, samples, lambda row: dataset.read([row], [CAMERA], windows=after))
    grouped = batches(random_rows(count, decodes))
    with meter.step(f"an image and {WINDOW} actions, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            dataset.read(batch, [CAMERA], windows=after)


def _readers_of_bytes(
    dataset: Dataset,
) -> tuple[Callable[[int], bytes], Callable[[list[int]], list[bytes]]]:
    """Return what reads one picture, and what reads a batch: what users call."""
    return (
        lambda row: dataset.encoded_images(CAMERA, [row])[0],
        lambda rows: dataset.encoded_images(CAMERA, rows),
    )


def epochs(meter: Meter, root: str, memory: int, count: int) -> None:
    """Read a sample around every row, in random order, for several epochs."""
    from roboreel import Window, open_dataset

    dataset = open_dataset(root, memory=memory)
    after = {"action": Window(frames=range(WINDOW))}
    for epoch in range(count):
        grouped = batches(shuffled_rows(len(dataset), epoch))
        with meter.step(f"epoch {epoch + 1}", BATCH * len(grouped)):
            for batch in grouped:
                dataset.read(batch, [CAMERA], windows=after)
