"""The main job, end to end: make a dataset, look inside, read training batches.

Run it with ``make demo``, or ``python examples/demo.py [FOLDER]``.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import track

import roboreel as reel
from roboreel.cli.console import progress_bar
from roboreel.sample import Sample, make_sample

if TYPE_CHECKING:
    from roboreel import Dataset

console = Console()


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"))
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--frames", type=int, default=100)
    options = parser.parse_args()
    path = make(options.folder / "arm", Sample(episodes=options.episodes, frames=options.frames))
    dataset = open_it(path)
    read_batches(dataset)


def make(path: Path, sample: Sample) -> Path:
    """Make a dataset of a simulated arm with two cameras."""
    console.rule("Make a dataset")
    shutil.rmtree(path, ignore_errors=True)
    with progress_bar() as progress:
        bar = progress.add_task("Episodes", total=sample.episodes)
        make_sample(path, sample, on_episode=lambda done: progress.update(bar, completed=done))
    return path


def open_it(path: Path) -> Dataset:
    """Open the dataset, and show what is in it."""
    console.rule("Open it")
    started = time.perf_counter()
    dataset = reel.open_dataset(path)
    console.print(f"{dataset}\nopened in {1e3 * (time.perf_counter() - started):.1f} ms")
    for name in ("observation.state", "action", *dataset.cameras):
        feature = dataset.features[name]
        console.print(f"  {name}: {feature.dtype} {feature.shape}", highlight=False)
    episode = dataset.episodes[1]
    console.print(
        f"episode {episode.number}: rows {episode.start} to {episode.stop}, {episode.tasks}"
    )
    return dataset


def read_batches(dataset: Dataset) -> None:
    """Read what a policy trains on: images, states, and the next 16 actions."""
    console.rule("Read training batches")
    windows = {
        "observation.state": reel.Window(frames=(-1, 0)),
        "action": reel.Window(frames=range(16)),
        **{camera: reel.Window(frames=(-1, 0)) for camera in dataset.cameras},
    }
    order = np.random.default_rng(0).permutation(len(dataset))[: 32 * (len(dataset) // 32)]
    batches = order.reshape(-1, 32)[:40]
    batch: dict[str, Any] = {}
    started = time.perf_counter()
    for samples in track(batches, "Batches", console=console):
        batch = dataset.read(samples, ["task"], windows=windows)
    elapsed_s = time.perf_counter() - started
    for name, values in batch.items():
        shape = (
            f"{len(values)} texts" if isinstance(values, list) else f"{values.dtype} {values.shape}"
        )
        console.print(f"  {name}: {shape}", highlight=False)
    count = batches.size
    images = count * 2 * len(dataset.cameras)
    console.print(
        f"{count / elapsed_s:,.0f} samples/s, {images / elapsed_s:,.0f} images/s in random order, "
        f"{dataset.memory.held_bytes / 1e6:.0f} MB held"
    )


if __name__ == "__main__":
    main()
