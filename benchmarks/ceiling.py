"""How many images one process, or its workers, can load when decoding does not limit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.loader_datasets import generate
from benchmarks.results import CPU_MS, PER_SECOND, note

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]

_CASES = "benchmarks.cases.ceiling"
_THREADS = (2, 8, 16, 32, 128)
_WORKERS = ((2, 16), (4, 64))
"""Processes, and decoding threads that they share out."""
_CONVERSION = "swscale alone"
_BARE = "sleep + swscale"
"""The most that threads of one process can do here, whatever reads for them."""


def cases(settings: Settings) -> list[Case]:
    """Encode a little video, whose packets are read and then slept over, and list who loads it."""
    frames, stored = (40, (64, 96)) if settings.quick else (160, (480, 640))
    root = generate(settings.scratch / "video", episodes=2, frames=frames, size=stored)
    sizes: dict[str, dict[str, Any]] = {
        f"{stored[0]}x{stored[1]}": {},
        "to 224x224": {"image_size": [224, 224]},
    }
    return [case for title, size in sizes.items() for case in _sized(settings, root, title, size)]


def _sized(settings: Settings, root: Path, title: str, size: dict[str, Any]) -> list[Case]:
    given = {"root": str(root), "repeats": 2 if settings.quick else 20, **size}
    threads = (2,) if settings.quick else _THREADS
    workers = ((1, 2),) if settings.quick else _WORKERS
    alone: dict[str, Any] = {"root": str(root), "count": 10 if settings.quick else 2_000, **size}
    return [
        *(
            Case(f"{title}, {n} threads", OURS, _CASES, "load", given | {"threads": n})
            for n in threads
        ),
        *(
            Case(
                f"{title}, {n} threads",
                _BARE,
                _CASES,
                "convert_asleep",
                alone | {"threads": n, "count": max(alone["count"], 64 * n)},
            )
            for n in threads
        ),
        *(
            Case(
                f"{title}, {processes} workers, {n} threads",
                OURS,
                _CASES,
                "load",
                given | {"threads": n, "workers": processes},
            )
            for processes, n in workers
        ),
        Case(f"{title}, conversion", _CONVERSION, _CASES, "convert_alone", alone),
    ]


BENCHMARK = Benchmark(
    "ceiling",
    "Loading images while the decoder sleeps 1.5 ms a packet",
    cases,
    rounds=3,
    columns=(
        PER_SECOND,
        CPU_MS,
        note("image_us", "CPU µs, without starts"),
        note("beyond_us", "CPU µs beyond the sleep"),
        note("packets", "packets"),
    ),
    plots=(PER_SECOND, CPU_MS),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
