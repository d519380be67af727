"""roboreel loads training batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.workload import TRAIN_BATCH, train_frames

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def load(
    meter: Meter,
    root: str,
    shuffle: str = "uniform",
    image_size: list[int] | None = None,
) -> None:
    """Load the batches of an epoch: to its end, so that nothing is read ahead in vain."""
    from roboreel import open_dataset

    loader = _loader(open_dataset(root), shuffle, image_size)
    checksum = 0.0
    with meter.step("a sample", len(loader) * TRAIN_BATCH):
        for batch in loader:
            checksum += float(batch["action"].sum())
    meter.note(checksum=checksum)


def load_first(meter: Meter, root: str) -> None:
    """Import, open, and load one batch."""
    with meter.step("the first batch"):
        from roboreel import open_dataset

        running = iter(_loader(open_dataset(root), "uniform", None))
        next(running)
    del running  # Outside: what is read ahead is no part of the first batch.


def _loader(dataset: Any, shuffle: str, image_size: list[int] | None) -> Any:  # noqa: ANN401
    from roboreel import Window
    from roboreel.torch import Loader, SampleDataset

    frames = train_frames(list(dataset.cameras))
    samples = SampleDataset(
        dataset,
        {name: Window(frames=when) for name, when in frames.items()},
        image_size=None if image_size is None else (image_size[0], image_size[1]),
    )
    # Neighbours share decoding within what is read at a time: half of what is read ahead.
    ahead = 16 if shuffle == "local" else 4
    return Loader(
        samples,
        TRAIN_BATCH,
        shuffle=shuffle,  # type: ignore[arg-type]  # from JSON
        prefetch=ahead,
    )
