"""roboreel loads training batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.workload import TRAIN_BATCH, shuffled_rows, train_frames

if TYPE_CHECKING:
    from benchmarks.meter import Meter

CONTENDER_ALONE = "decoder alone, 2 threads"
CONTENDER_IMPORT = "import torch, nothing else"
_DECODERS = 2


def load(
    meter: Meter,
    root: str,
    shuffle: str = "uniform",
    image_size: list[int] | None = None,
    ranks: int = 1,
) -> None:
    """Load one rank's batches of an epoch: to its end, so that nothing is read ahead in vain."""
    from roboreel import open_dataset

    loader = _loader(open_dataset(root), shuffle, image_size, ranks)
    _pass_over(loader)  # LeRobot, too, has a first pass that does not count.
    with meter.step("a sample", len(loader) * TRAIN_BATCH):
        _pass_over(loader)


def _pass_over(loader: Any) -> None:  # noqa: ANN401  # roboreel.torch.Loader
    for batch in loader:
        # By NumPy: threads of PyTorch's own sum would wait for more, busily.
        batch["action"].numpy().sum()


def decode_alone(meter: Meter, root: str) -> None:
    """Feed a decoder what the batches of an epoch need, and drop the images: no loader is faster."""
    from concurrent.futures import ThreadPoolExecutor

    from roboreel import open_dataset
    from roboreel.video.decode import Decoder
    from roboreel.video.packets import FilePackets

    dataset = open_dataset(root)
    jobs = _decoding_jobs(dataset)

    def decode(share: int) -> None:
        decoders: dict[Any, Decoder] = {}
        for job in jobs[share::_DECODERS]:
            decoder = decoders.setdefault(job.table.coding, Decoder(job.table.coding))
            with FilePackets(job.path, job.table) as reader:
                for run in job.runs:
                    for _ in decoder.decode(reader, job.table, run):
                        pass

    count = len(dataset) // TRAIN_BATCH * TRAIN_BATCH
    with meter.step("a sample", count), ThreadPoolExecutor(_DECODERS) as pool:
        list(pool.map(decode, range(_DECODERS)))


def _decoding_jobs(dataset: Any) -> list[Any]:  # noqa: ANN401
    """Return what the decoders of each batch of a shuffled epoch are asked for."""
    import numpy as np

    from roboreel.window import window_rows

    images, table = dataset._reader._images, dataset.manifest.episodes
    jobs: list[Any] = []
    rows = np.asarray(shuffled_rows(len(dataset), 0))
    for first in range(0, len(rows) - TRAIN_BATCH + 1, TRAIN_BATCH):
        anchors = rows[first : first + TRAIN_BATCH]
        episodes = dataset._reader._files.episodes_of(anchors)
        starts = table.start[episodes]
        for camera in dataset.cameras:
            offsets = np.asarray(train_frames([camera])[camera])
            wanted, _ = window_rows(anchors, offsets, starts, starts + table.length[episodes])
            asked = images._requests(
                camera, wanted.reshape(-1), np.repeat(episodes, wanted.shape[1])
            )
            jobs += images._videos.plan(asked).jobs
    return jobs


def load_first(meter: Meter, root: str) -> None:
    """Import, open, and load one batch."""
    with meter.step("the first batch"):
        from roboreel import open_dataset

        running = iter(_loader(open_dataset(root), "uniform", None))
        next(running)
    del running  # Outside: what is read ahead is no part of the first batch.


def import_torch(meter: Meter) -> None:
    """Import what every batch of tensors needs: no loader is sooner."""
    with meter.step("the first batch"):
        import torch  # noqa: F401


def _loader(
    dataset: Any,  # noqa: ANN401
    shuffle: str,
    image_size: list[int] | None,
    ranks: int = 1,
) -> Any:  # noqa: ANN401
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
        rank=0,
        world_size=ranks,
    )
