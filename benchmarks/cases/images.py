"""roboreel reads pictures where they lie in Parquet: as bytes, as pixels, and with actions."""

from __future__ import annotations

from bisect import bisect_right
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
    """Return what reads one picture of a file, and what reads a batch from all files."""
    import numpy as np

    from roboreel.memory.budget import process_budget
    from roboreel.storage.extents.byte_column import ByteColumn

    manifest, budget = dataset.manifest, process_budget()
    paths = [manifest.root / manifest.data_files[file] for file in range(len(manifest.data_files))]
    columns = [ByteColumn(path, (CAMERA, "bytes"), budget=budget) for path in paths]
    starts = np.cumsum([0, *(column.num_rows for column in columns)]).tolist()
    pictures = dataset.frame_reader.pictures

    def one(row: int) -> bytes:
        file = bisect_right(starts, row) - 1
        picture = columns[file].read([row - starts[file]])[0]
        assert picture is not None
        return picture

    return one, lambda rows: pictures.read(CAMERA, np.asarray(rows))


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
