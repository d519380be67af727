"""roboreel fills a replay buffer and draws samples from it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.workload import WINDOW

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def replay(meter: Meter, root: str, length: int, batch: int, count: int) -> None:
    """Add episodes; draw single frames, windows, and windows by priority."""
    import numpy as np

    from roboreel.replay.buffer import ReplayBuffer
    from roboreel.schema import Feature
    from roboreel.window import Window

    values = {name: np.load(Path(root, f"{name}.npy")) for name in ("state", "action", "priority")}
    frames = len(values["state"])
    features = {name: Feature("float32", v.shape[1:] or (1,)) for name, v in values.items()}
    path = Path(tempfile.mkdtemp(), "buffer")
    with ReplayBuffer(path, capacity=frames, features=features) as buffer:
        with meter.step(f"add a frame, in episodes of {length}", frames):
            for start in range(0, frames, length):
                buffer.add_episode({n: v[start : start + length] for n, v in values.items()})
        with meter.step(f"draw a frame, in batches of {batch}", batch * count):
            for seed in range(count):
                buffer.sample(batch, seed=seed)
        around = {"action": Window(frames=range(WINDOW)), "state": Window(frames=(-1, 0))}
        with meter.step(f"draw a window, in batches of {batch}", batch * count):
            for seed in range(count):
                buffer.sample(batch, windows=around, seed=seed)
        with meter.step(f"draw a window by priority, in batches of {batch}", batch * count):
            for seed in range(count):
                buffer.sample(batch, windows=around, weights="priority", seed=seed)
        first = buffer.sample(batch, windows=around, seed=0)["action"]
    meter.note(frames=frames, checksum=float(first.sum(dtype="float64")))
