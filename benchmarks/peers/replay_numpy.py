"""What NumPy does for a replay buffer in memory: the limit, for whoever can afford the memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.workload import WINDOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.meter import Meter

CONTENDER = "NumPy in memory"


def replay(meter: Meter, root: str, length: int, batch: int, count: int) -> None:
    """Copy episodes into arrays; draw single frames, windows, and windows by priority."""
    values = {name: np.load(Path(root, f"{name}.npy")) for name in ("state", "action", "priority")}
    frames = len(values["state"])
    held = {name: np.zeros_like(value) for name, value in values.items()}
    with meter.step(f"add a frame, in episodes of {length}", frames):
        for start in range(0, frames, length):
            for name, value in values.items():
                held[name][start : start + length] = value[start : start + length]
    with meter.step(f"draw a frame, in batches of {batch}", batch * count):
        for seed in range(count):
            rows = np.random.default_rng(seed).integers(0, frames, batch)
            for value in held.values():
                value.take(rows, axis=0)
    with meter.step(f"draw a window, in batches of {batch}", batch * count):
        for seed in range(count):
            _windows(held, np.random.default_rng(seed).integers(0, frames, batch), length)
    with meter.step(f"draw a window by priority, in batches of {batch}", batch * count):
        for seed in range(count):
            sums = np.cumsum(held["priority"], dtype=np.float64)
            targets = np.random.default_rng(seed).random(batch) * sums[-1]
            _windows(held, np.searchsorted(sums, targets, side="right"), length)
    rows = np.random.default_rng(0).integers(0, frames, batch)
    first = _windows(held, rows, length)["action"]
    meter.note(frames=frames, checksum=float(first.sum(dtype="float64")))


def _windows(
    held: dict[str, NDArray[Any]], rows: NDArray[np.int64], length: int
) -> dict[str, NDArray[Any]]:
    start = (rows - rows % length)[:, None]
    sample = {"priority": held["priority"].take(rows)}
    for name, offsets in (("action", np.arange(WINDOW)), ("state", np.array([-1, 0]))):
        wanted = rows[:, None] + offsets
        inside = np.clip(wanted, start, start + length - 1)
        sample[name] = held[name].take(inside, axis=0)
        sample[f"{name}_is_pad"] = wanted != inside
    return sample
