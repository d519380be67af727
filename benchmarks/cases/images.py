"""roboreel reads pictures where they lie in Parquet: as bytes, as pixels, and with actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.picture_reads import CAMERA, measure_bytes, measure_pixels, measure_samples
from benchmarks.workload import BATCH, WINDOW, batches, random_rows, shuffled_rows

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def read(meter: Meter, root: str, memory: int, reads: int, decodes: int, samples: int) -> None:
    """Read random pictures, and random samples of a picture and the actions after it."""
    import numpy as np

    from roboreel import Window, open_dataset
    from roboreel.storage.budget import process_budget
    from roboreel.storage.frame_files import FrameFiles
    from roboreel.storage.picture_columns import PictureColumns

    with meter.step("open"):
        dataset = open_dataset(root, memory=memory)
    manifest, count = dataset.manifest, len(dataset)
    files = FrameFiles(manifest.root, manifest.data_files, manifest.episodes)
    pictures = PictureColumns(files, process_budget())
    measure_bytes(
        meter,
        count,
        reads,
        lambda row: pictures.read(CAMERA, np.asarray([row]))[0],
        lambda rows: pictures.read(CAMERA, np.asarray(rows)),
    )
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
