"""Numbers beyond the memory budget: 50-step windows at random, and what the process holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks.datasets import Shape, write_v30
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.results import CPU_MS, HELD_MB, PEAK_MB, PER_CPU_SECOND

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]

_OURS = "benchmarks.cases.budget"
# Frames, and the budget: state and action take 112 MB for each million.
_SIZES = ((1_000_000, "64MB"), (10_000_000, "256MB"), (10_000_000, "64MB"))


def cases(settings: Settings) -> list[Case]:
    """Write the datasets and list the ways to read them."""
    sizes = ((600, "20kB"),) if settings.quick else _SIZES
    listed: list[Case] = []
    for frames, memory in sizes:
        root = settings.scratch / str(frames)
        if not root.exists():
            length = 20 if settings.quick else 300
            write_v30(root, Shape(frames // length, mean_length=length, cameras=0))
        listed += _reads(settings, root, f"{frames:,} frames, {memory}", memory)
    return listed


def _reads(settings: Settings, root: Path, title: str, memory: str) -> list[Case]:
    given = {"root": str(root), "count": 64 if settings.quick else 4096}
    small, large = given | {"memory": memory}, given | {"memory": "8GB"}
    return [
        Case(f"{title}, in place", OURS, _OURS, "windows", small, watch=(root,)),
        Case(f"{title}, in 4 threads", OURS, _OURS, "in_threads", small, watch=(root,)),
        Case(f"{title}, mapped", OURS, _OURS, "mapped", small, watch=(root,)),
        Case(f"{title}, in a budget of 8 GB", OURS, _OURS, "windows", large, watch=(root,)),
    ]


BENCHMARK = Benchmark(
    "budget",
    "Numbers beyond the budget",
    cases,
    columns=(PER_CPU_SECOND, CPU_MS, PEAK_MB, HELD_MB),
    plots=(PER_CPU_SECOND, PEAK_MB),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
