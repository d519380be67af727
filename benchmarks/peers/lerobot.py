"""What LeRobot 0.4.4 does in the benchmarks; runs in the peers' environment."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.picture_reads import CAMERA, measure_pixels, measure_samples
from benchmarks.workload import BATCH, TRAIN_BATCH, WINDOW, batches, random_rows, train_frames

if TYPE_CHECKING:
    from benchmarks.meter import Meter

CONTENDER = "LeRobot 0.4.4"
METADATA_ALONE = "LeRobot 0.4.4 metadata"
"""Only the part of it that reads metadata, as it does before it comes to the data files."""


def declare_missing_operator() -> None:
    """Let torchvision be imported beside a torch that it was not compiled for.

    Its import describes an operator of its compiled part, which does not load there. Reading a
    dataset does not call it, so it is enough that the operator has a name.
    """
    import torch

    torch.library.define(
        "torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )


def import_library(meter: Meter) -> None:
    """Import what opening needs."""
    with meter.step("import"):
        declare_missing_operator()
        import_module("lerobot.datasets.lerobot_dataset")


def open_dataset(meter: Meter, root: str) -> None:
    """Open a dataset and look at one episode in its middle."""
    declare_missing_operator()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    with meter.step("open"):
        dataset = LeRobotDataset("benchmark/open", root=root)
        middle = dataset.meta.episodes[dataset.num_episodes // 2]["dataset_from_index"]
    meter.note(frames=len(dataset), episodes=dataset.num_episodes, middle=middle)


def open_metadata(meter: Meter, root: str) -> None:
    """Open the metadata alone, as a dataset does before it comes to its data files."""
    declare_missing_operator()
    from lerobot.datasets.lerobot_dataset import LeRobotDatasetMetadata

    with meter.step("open"):
        meta = LeRobotDatasetMetadata("benchmark/open", root=root)
        middle = meta.episodes[meta.total_episodes // 2]["dataset_from_index"]
    meter.note(frames=meta.total_frames, episodes=meta.total_episodes, middle=middle)


def read_numbers(meter: Meter, root: str, rows: int, windows: int) -> None:
    """Read rows one by one, windows one by one, and windows collated into batches."""
    declare_missing_operator()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from torch.utils.data import default_collate

    with meter.step("open"):
        plain = LeRobotDataset("benchmark/numeric", root=root)
    chosen = random_rows(len(plain), rows)
    with meter.step("one row", rows):
        for row in chosen:
            plain[row]
    seconds = [frame / plain.fps for frame in range(WINDOW)]
    around = {"observation.state": seconds, "action": seconds}
    dataset = LeRobotDataset("benchmark/numeric", root=root, delta_timestamps=around)
    anchors = random_rows(len(dataset), windows)
    with meter.step("one window", windows):
        for row in anchors:
            dataset[row]
    grouped = batches(anchors)
    with meter.step(f"a window, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            default_collate([dataset[row] for row in batch])
    first = default_collate([dataset[row] for row in anchors[:BATCH]])["action"]
    meter.note(frames=len(dataset), checksum=float(first.double().sum()))


def read_pictures(meter: Meter, root: str, decodes: int, samples: int) -> None:
    """Read pictures as pixels, one by one and collated; then one with the actions after it."""
    declare_missing_operator()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from torch.utils.data import default_collate

    with meter.step("open"):
        plain = LeRobotDataset("benchmark/images", root=root)

    def many(rows: list[int]) -> Any:  # noqa: ANN401  # a tensor, whole numbers as others have
        return default_collate([plain[row] for row in rows])[CAMERA].mul_(255).round_()

    measure_pixels(meter, len(plain), decodes, lambda row: plain[row], many)
    after = {"action": [frame / plain.fps for frame in range(WINDOW)]}
    dataset = LeRobotDataset("benchmark/images", root=root, delta_timestamps=after)
    measure_samples(meter, len(dataset), samples, lambda row: dataset[row])


def train(meter: Meter, root: str, batch: int) -> None:
    """Run through epochs with two workers; the images stay as large as they are stored."""
    declare_missing_operator()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from torch.utils.data import DataLoader

    with meter.step("open"):
        plain = LeRobotDataset("benchmark/epoch", root=root, video_backend="torchcodec")
    after = {"action": [frame / plain.fps for frame in range(WINDOW)]}
    windowed = LeRobotDataset(
        "benchmark/epoch", root=root, video_backend="torchcodec", delta_timestamps=after
    )
    named = {"an epoch": plain, f"an epoch, with {WINDOW} actions": windowed}
    for name, dataset in named.items():
        loader = DataLoader(dataset, batch, shuffle=True, num_workers=2, drop_last=True)
        with meter.step(f"{name}, a sample", len(loader) * batch):
            for _ in loader:
                pass
    meter.note(frames=len(plain))


def load(meter: Meter, root: str, batches: int, image_size: list[int] | None = None) -> None:
    """Load training batches with a DataLoader of two workers, as its training script does."""
    declare_missing_operator()
    loader = _loader(root, image_size, batches)
    for batch in loader:  # A first pass that does not count, as for ours.
        batch["action"].numpy().sum()
    # Workers are started and ended inside: their time counts once they have ended.
    with meter.step("a sample", batches * TRAIN_BATCH):
        for batch in loader:
            batch["action"].numpy().sum()


def load_first(meter: Meter, root: str) -> None:
    """Import, open, and load one batch."""
    with meter.step("the first batch"):
        declare_missing_operator()
        running = iter(_loader(root, None, 64))
        next(running)
    del running  # Outside, as ours: wall time counts here, and workers take theirs to end.


def _loader(root: str, image_size: list[int] | None, batches: int) -> Any:  # noqa: ANN401
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    plain = LeRobotDataset("benchmark/loader", root=root)
    fps, frames = plain.fps, train_frames(list(plain.meta.camera_keys))

    def resize(images: Any) -> Any:  # noqa: ANN401  # a tensor
        return torch.nn.functional.interpolate(
            images, tuple(image_size or ()), mode="bilinear", antialias=True
        )

    dataset = LeRobotDataset(
        "benchmark/loader",
        root=root,
        delta_timestamps={name: [frame / fps for frame in when] for name, when in frames.items()},
        image_transforms=None if image_size is None else resize,
    )
    # A random order that ends after so many batches, so that no worker reads ahead in vain.
    chosen = torch.utils.data.RandomSampler(
        dataset, replacement=True, num_samples=batches * TRAIN_BATCH
    )
    return torch.utils.data.DataLoader(
        dataset, batch_size=TRAIN_BATCH, sampler=chosen, num_workers=2
    )
