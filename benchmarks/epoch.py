"""A training epoch from a cache of JPEG 224 x 224, and from the video itself."""

from __future__ import annotations

import sys
from dataclasses import replace

from benchmarks.cases.epoch import ON_VIDEO
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers import lerobot
from benchmarks.results import CPU_MS, DISK_MB, PEAK_MB, PER_SECOND, Column
from roboreel.demo_arm import DemoSpec, make_demo_dataset

__all__ = ["BENCHMARK"]

TOTAL_MINUTES = Column("minutes", lambda row: row.wall_s / 60)
"""Duration of the whole step: how long a user waits for the cache."""


def cases(settings: Settings) -> list[Case]:
    """Make a dataset of AV1 video from two cameras; return a case per contender."""
    spec = DemoSpec(episodes=2, frames=20, size=(96, 128)) if settings.quick else _LARGE
    root = make_demo_dataset(settings.scratch / "arm", spec)
    title = f"{spec.episodes * spec.frames:,} frames, 2 cameras of {_size(spec)}, AV1"
    given = {"root": str(root), "batch": 4 if settings.quick else 32}
    ours = Case(title, OURS, "benchmarks.cases.epoch", "from_cache", given, watch=(root,))
    if settings.peers is None:
        return [ours]
    theirs = replace(
        ours,
        contender=lerobot.CONTENDER,
        module=lerobot.__name__,
        function="train",
        python=settings.peers,
        environment={"OMP_NUM_THREADS": "1"},  # With more, LeRobot is slower.
    )
    return [ours, replace(ours, contender=ON_VIDEO, function="from_video"), theirs]


_LARGE = DemoSpec(episodes=20, frames=100, size=(480, 640))


def _size(spec: DemoSpec) -> str:
    return f"{spec.size[0]} x {spec.size[1]}"


BENCHMARK = Benchmark(
    "epoch",
    "A training epoch",
    cases,
    rounds=3,
    columns=(PER_SECOND, CPU_MS, TOTAL_MINUTES, PEAK_MB, DISK_MB),
    plots=(PER_SECOND, CPU_MS),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
