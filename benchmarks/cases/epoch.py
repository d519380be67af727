"""roboreel runs through an epoch: from a training cache that it builds, or from the video itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.workload import WINDOW

if TYPE_CHECKING:
    from benchmarks.meter import Meter
    from roboreel import Dataset

ON_VIDEO = "roboreel on the video"
SIZE = (224, 224)


def from_cache(meter: Meter, root: str, batch: int) -> None:
    """Decode the dataset once, into JPEG of 224 x 224; then run through epochs."""
    from roboreel import Jpeg, open_dataset

    path = Path(tempfile.gettempdir(), "cache")
    with meter.step("open"):
        source = open_dataset(root)
    with meter.step("build the cache, a frame", len(source)):
        source.materialize(path, {"*": Jpeg(size=SIZE, quality=95)})
    _run(meter, open_dataset(root, cache=path), batch)


def from_video(meter: Meter, root: str, batch: int) -> None:
    """Run through epochs without a cache; images are decoded and scaled again and again."""
    from roboreel import open_dataset

    with meter.step("open"):
        dataset = open_dataset(root)
    _run(meter, dataset, batch)


def _run(meter: Meter, dataset: Dataset, batch: int) -> None:
    from roboreel import Window
    from roboreel.torch import Loader, SampleDataset

    windows = {"action": Window(frames=range(WINDOW))}
    for name, around in (("an epoch", {}), (f"an epoch, with {WINDOW} actions", windows)):
        samples = SampleDataset(dataset, around, image_size=SIZE)
        loader = Loader(samples, batch, shuffle="uniform", threads=2)
        with meter.step(f"{name}, a sample", len(loader) * batch):
            for _ in loader:
                pass
    meter.note(frames=len(dataset))
