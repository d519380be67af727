"""A robot at work, as far as a recorder can tell: frames at a steady rate, and who was late.

Runs under any interpreter: NumPy and PyAV only.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.meter import Meter

__all__ = ["CAMERAS", "WIDTH", "count_images", "record_episodes"]

CAMERAS = ("observation.images.front", "observation.images.wrist")
WIDTH = 14
_NUM_VIEWS = 30


def record_episodes(
    meter: Meter,
    add: Callable[[dict[str, Any]], object],
    save: Callable[[], object],
    *,
    episodes: int,
    frames: int,
    fps: int,
    size: tuple[int, int],
) -> None:
    """Record at the robot's pace, and note how long each call took, in milliseconds."""
    views = [_view(i, size) for i in range(_NUM_VIEWS)]
    adding, saving = [], []
    with meter.step("record", count=episodes * frames):
        for _ in range(episodes):
            start = time.perf_counter()
            for i in range(frames):
                # A robot does not wait: a late recorder gets its frames faster, not later.
                time.sleep(max(0.0, start + i / fps - time.perf_counter()))
                adding.append(_timed(partial(add, _frame(i, views))))
            saving.append(_timed(save))
    for name, taken in (("add", adding), ("save", saving)):
        milliseconds = np.asarray(taken) * 1e3
        p50, p99 = np.percentile(milliseconds, [50, 99])
        meter.note(
            **{f"{name}_p50_ms": p50, f"{name}_p99_ms": p99, f"{name}_max_ms": milliseconds.max()}
        )


def count_images(root: Path) -> int:
    """Return how many images the video files of a dataset hold; empty files are passed over."""
    import av

    count = 0
    for path in root.glob("videos/*/*/*.mp4"):
        if path.stat().st_size:
            with av.open(str(path)) as container:
                count += sum(1 for packet in container.demux(video=0) if packet.size)
    return count


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _frame(i: int, views: list[Any]) -> dict[str, Any]:
    numbers = np.sin(np.arange(WIDTH) + i / 30).astype(np.float32)
    image = views[i % len(views)]
    return {"observation.state": numbers, "action": numbers, **dict.fromkeys(CAMERAS, image)}


def _view(i: int, size: tuple[int, int]) -> Any:  # noqa: ANN401  # an image
    """Return an image with large shapes, an edge that moves, and a sensor's noise."""
    y, x = np.mgrid[0 : size[0], 0 : size[1]]
    shade = 120 + 60 * np.sin(x / 60 + i / 9) + 40 * np.cos(y / 45)
    shade[(x - 40 - 8 * i) ** 2 + (y - size[0] / 2) ** 2 < 900] = 30
    noise = np.random.default_rng(i).normal(0, 3, (*size, 3))
    tint = np.array([1.0, 0.9, 0.8])
    return np.clip(shade[..., None] * tint + noise, 0, 255).astype(np.uint8)
