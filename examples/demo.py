"""The main job, end to end: record a dataset, look inside, load training batches, look at it.

Run it with ``make demo``, or ``python examples/demo.py [FOLDER]``.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

import roboreel as reel
from roboreel.demo_arm.arm import ACTION_NAMES, STATE_NAMES, simulate_episode
from roboreel.demo_arm.render import render
from roboreel.report import write_report
from roboreel.rerun import export_episodes
from roboreel.torch import Loader, SampleDataset

if TYPE_CHECKING:
    from roboreel import Dataset

FPS = 30
SIZE = (240, 320)
CAMERAS = ("front", "wrist")
FEATURES = {
    "observation.state": reel.Feature("float32", (len(STATE_NAMES),), STATE_NAMES),
    "action": reel.Feature("float32", (len(ACTION_NAMES),), ACTION_NAMES),
    "next.reward": reel.Feature("float32", (1,)),
    "next.done": reel.Feature("bool", (1,)),
    **{f"observation.images.{name}": reel.Feature("video", (*SIZE, 3)) for name in CAMERAS},
}

console = Console()


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"))
    parser.add_argument("--episodes", type=int, default=12)
    parser.add_argument("--frames", type=int, default=90)
    options = parser.parse_args()
    path = options.folder / "arm"
    shutil.rmtree(path, ignore_errors=True)
    record(path, options.episodes, options.frames)
    dataset = open_it(path)
    load_batches(dataset)
    look_at_it(dataset, options.folder)


def record(path: Path, episodes: int, frames: int) -> None:
    """Record a simulated arm with two cameras; every saved episode is on the disk."""
    console.rule("Record a dataset")
    saving_s = []
    with reel.create_dataset(path, fps=FPS, features=FEATURES, robot_type="demo_arm") as recorder:
        for number in track(range(episodes), "Episodes", console=console):
            run = simulate_episode(seed=0, episode=number, frames=frames, fps=FPS)
            for i, scene in enumerate(run.scenes):
                images = {f"observation.images.{c}": render(scene, c, SIZE) for c in CAMERAS}
                numbers = {
                    "observation.state": run.state[i],
                    "action": run.action[i],
                    "next.reward": run.reward[i],
                    "next.done": run.done[i],
                }
                recorder.add_frame({**numbers, **images}, task=run.task)
            started = time.perf_counter()
            recorder.save_episode()
            saving_s.append(time.perf_counter() - started)
    console.print(
        f"{episodes} episodes, each saved in {1e3 * max(saving_s):.0f} ms at most: {path}"
    )


def open_it(path: Path) -> Dataset:
    """Open the dataset, and show what is in it."""
    console.rule("Open it, in place")
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


def load_batches(dataset: Dataset) -> None:
    """Load what a policy trains on: two images of each camera, two states, 16 actions."""
    console.rule("Load training batches")
    windows = {
        "observation.state": reel.Window(frames=(-1, 0)),
        "action": reel.Window(frames=range(16)),
        **{camera: reel.Window(frames=(-1, 0)) for camera in dataset.cameras},
    }
    samples = SampleDataset(dataset, windows)
    for shuffle in ("uniform", "local"):
        loader = Loader(samples, batch_size=32, shuffle=shuffle, seed=0)
        started = time.perf_counter()
        batches = [batch["action"].shape[0] for batch in track(loader, shuffle, console=console)]
        elapsed_s = time.perf_counter() - started
        images = sum(batches) * 2 * len(dataset.cameras)
        console.print(
            f"{shuffle} shuffle: {sum(batches) / elapsed_s:,.0f} samples/s, "
            f"{images / elapsed_s:,.0f} images/s, {dataset.memory.held_bytes / 1e6:.0f} MB held"
        )
    first = next(iter(Loader(samples, batch_size=32)))
    for name, values in first.items():
        shape = f"{len(values)} texts" if isinstance(values, list) else str(tuple(values.shape))
        console.print(f"  {name}: {shape}", highlight=False)


def look_at_it(dataset: Dataset, folder: Path) -> None:
    """Write an episode for Rerun's viewer, and a page about the whole."""
    console.rule("Look at it")
    started = time.perf_counter()
    (recording,) = export_episodes(dataset.select([0]), folder / "recordings", overwrite=True)
    report = write_report(dataset, folder / "report.html")
    elapsed_s = time.perf_counter() - started
    console.print(f"{recording}\n{report}\nwritten in {elapsed_s:.1f} s", highlight=False)


if __name__ == "__main__":
    main()
