"""Read training batches from a LeRobot dataset, in place: nothing is copied or converted.

Run it with ``python examples/read_batches.py DATASET``. Without a dataset, a small one is made.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset


def main() -> None:
    """Open a dataset, select episodes, and read batches in random order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", nargs="?", type=Path)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = options.dataset or make_demo_dataset(
            Path(scratch, "arm"), DemoSpec(episodes=3, frames=30)
        )
        read(path, options.batches, options.batch_size)


def read(path: Path, num_batches: int, batch_size: int) -> None:
    """Read some batches, and print what they hold and what is held in memory."""
    dataset = reel.open_dataset(path, memory="256MB")
    print(dataset)

    # A view, in the dataset's order. Nothing is copied; its samples are numbered from 0.
    training = dataset.filter(lambda episode: episode.number % 10 != 9)

    # What a policy sees: the last two images of each camera, the state, and the next 16 actions.
    windows = {camera: reel.Window(frames=(-1, 0)) for camera in dataset.cameras}
    windows["action"] = reel.Window(frames=range(16))
    spec = reel.SampleSpec(["observation.state", "task"], windows, image_size=(224, 224))

    order = np.random.default_rng(0).permutation(len(training))
    for first in range(0, min(num_batches * batch_size, len(training)), batch_size):
        samples = order[first : first + batch_size]
        batch = training.read(samples, spec)
        print(f"{len(samples)} samples from {batch['task'][0]!r} on")

    for name, values in batch.items():
        print(f"  {name}: {getattr(values, 'shape', len(values))}")
    print(dataset.memory)


if __name__ == "__main__":
    main()
