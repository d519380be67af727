"""roboreel reads images of a video; so does a decoder alone, for comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.image_batches import FORWARD, IN_ORDER, in_order_batches, random_batches

if TYPE_CHECKING:
    from benchmarks.meter import Meter
    from roboreel.video.clip import Run

LOADED = "in order, a batch for each image"
CONTENDER_ALONE = "decoder alone"


def read(meter: Meter, path: str, root: str, length: int, count: int, threads: int) -> None:
    """Read images of a dataset at random, in order, and forward, as users do."""
    from roboreel import open_dataset
    from roboreel.loading import Loader, Samples
    from roboreel.video.mp4 import read_packet_table

    with meter.step("open"):
        read_packet_table(Path(path))
    dataset = open_dataset(root, decode_threads=threads)
    cameras = dataset.cameras
    dataset.read([0], cameras)
    for name, batches in random_batches(length, count).items():
        with meter.step(name, sum(map(len, batches))):
            for images in batches:
                dataset.read(images, cameras)
    batches = in_order_batches(length, count)
    with meter.step(IN_ORDER, len(batches)):
        for images in batches:
            dataset.read(images, cameras)
    loader = Loader(Samples(dataset, features=cameras), 1, shuffle=False)
    with meter.step(LOADED, len(loader)):
        for _ in loader:
            pass
    with meter.step(FORWARD, length):
        for _ in dataset.episodes[0].stream(cameras[0]):
            pass


def decode_alone(meter: Meter, path: str, length: int, count: int) -> None:
    """Feed the same packets to a decoder, and discard the images."""
    import numpy as np

    from roboreel.video.clip import plan_runs, split_runs
    from roboreel.video.decode import Decoder
    from roboreel.video.mp4 import read_packet_table
    from roboreel.video.packets import FilePackets

    table = read_packet_table(Path(path))
    decoder = Decoder(table.coding)

    def plan(images: list[int]) -> list[Run]:
        packets = table.shown[images].astype(np.int64)
        runs = plan_runs(packets, table.start)
        return [run for part in split_runs(runs, table.size.size) for run in part]

    with FilePackets(Path(path), table) as reader:
        named = {**random_batches(length, count), FORWARD: [list(range(length))]}
        for name, batches in named.items():
            planned = [run for images in batches for run in plan(images)]
            with meter.step(name, sum(map(len, batches))):
                for run in planned:
                    for _ in decoder.decode(reader, table, run):
                        pass
