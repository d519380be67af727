"""Reading numbers: single rows and 50-step windows, at what disk and memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.datasets import Shape, write_stops, write_v30
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers import hf_datasets, lerobot, numpy_memmap
from benchmarks.results import CPU_MS, DISK_MB, HELD_MB, PEAK_MB, PER_CPU_SECOND

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]


def cases(settings: Settings) -> list[Case]:
    """Write 200,000 frames of 28 numbers and list who reads them."""
    shape = Shape(8, mean_length=30, cameras=0) if settings.quick else Shape(667, cameras=0)
    root = write_v30(settings.scratch / "numbers", shape)
    fast = _counts(settings, 20_000, 20_032)
    given = {"root": str(root)}
    title = f"{int(shape.lengths().sum()):,} frames of {2 * shape.width} numbers"
    ours = "benchmarks.cases.numeric"
    return [
        Case(title, OURS, ours, "read", given | fast, watch=(root,)),
        *_peers(settings, title, root, write_stops(settings.scratch / "stops.npy", shape)),
        Case("windows around every row", OURS, ours, "epochs", given | {"count": 5}, watch=(root,)),
    ]


def _peers(settings: Settings, title: str, root: Path, stops: Path) -> list[Case]:
    if settings.peers is None:
        return []
    known = {"root": str(root), "stops": str(stops)}
    slow = {"root": str(root)} | _counts(settings, 4_000, 256)
    lerobot_case = Case(
        title, lerobot.CONTENDER, lerobot.__name__, "read_numbers", slow, settings.peers, (root,)
    )
    return [
        # One thread or the default: for windows the CPU time differs by less than the noise.
        replace(lerobot_case, environment={"OMP_NUM_THREADS": "1"}),
        replace(
            lerobot_case,
            contender=hf_datasets.CONTENDER,
            module=hf_datasets.__name__,
            function="read",
            arguments=known | _counts(settings, 10_000, 4_096),
        ),
        replace(
            lerobot_case,
            contender=numpy_memmap.CONTENDER,
            module=numpy_memmap.__name__,
            function="read",
            arguments=known | _counts(settings, 20_000, 20_032),
        ),
    ]


def _counts(settings: Settings, rows: int, windows: int) -> dict[str, int]:
    return {"rows": 64, "windows": 64} if settings.quick else {"rows": rows, "windows": windows}


BENCHMARK = Benchmark(
    "numeric",
    "Reading numbers",
    cases,
    columns=(PER_CPU_SECOND, CPU_MS, PEAK_MB, HELD_MB, DISK_MB),
    plots=(PER_CPU_SECOND, PEAK_MB),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
