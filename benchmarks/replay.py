"""Replay: adding episodes and drawing samples, beside arrays in memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers import replay_hf, replay_numpy
from benchmarks.results import CPU_MS, DISK_MB, HELD_MB, PEAK_MB, PER_CPU_SECOND

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]

_LENGTH = 250
_WIDTH = 14


def cases(settings: Settings) -> list[Case]:
    """Write a million frames of 29 numbers and list who replays them."""
    frames = 4 * _LENGTH if settings.quick else 4000 * _LENGTH
    root = _write(settings.scratch / "replay", frames)
    many, few = (2, 2) if settings.quick else (300, 10)
    given = {"root": str(root), "length": _LENGTH, "batch": 256, "count": many}
    title = f"{frames:,} frames of {2 * _WIDTH + 1} numbers"
    listed = [Case(title, OURS, "benchmarks.cases.replay", "replay", given)]
    if settings.peers is None:
        return listed
    return [
        *listed,
        Case(title, replay_numpy.CONTENDER, replay_numpy.__name__, "replay", given),
        Case(
            title,
            replay_hf.CONTENDER,
            replay_hf.__name__,
            "replay",
            given | {"count": few},
            settings.peers,
        ),
    ]


def _write(root: Path, frames: int) -> Path:
    root.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for name in ("state", "action"):
        np.save(root / f"{name}.npy", generator.random((frames, _WIDTH), dtype=np.float32))
    np.save(root / "priority.npy", generator.random(frames, dtype=np.float32))
    return root


BENCHMARK = Benchmark(
    "replay",
    "Replay",
    cases,
    columns=(PER_CPU_SECOND, CPU_MS, PEAK_MB, HELD_MB, DISK_MB),
    plots=(PER_CPU_SECOND, PEAK_MB),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
