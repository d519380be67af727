"""Checking a dataset: what it costs beside robovet."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.datasets import Shape, write_v30_metadata
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers.robovet import CONTENDER, robovet_python
from benchmarks.results import CPU_MS, PEAK_MB, WALL_MS, note
from roboreel.demo_arm import DemoSpec, make_demo_dataset

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]

VERSIONS: tuple[Literal["3.0", "2.1"], ...] = ("3.0", "2.1")


def cases(settings: Settings) -> list[Case]:
    """Make the datasets and list who checks them."""
    episodes, frames, many = (4, 8, 40) if settings.quick else (1000, 10, 100_000)
    spec = DemoSpec(episodes=episodes, frames=frames, size=(48, 64), codec="h264", cameras=2)
    listed = []
    for version in VERSIONS:
        folder = settings.scratch / version
        root = make_demo_dataset(folder / "arm", replace(spec, version=version))
        scenario = f"v{version}, {episodes:,} episodes, 2 cameras, nothing decoded"
        listed += _cases(settings, scenario, root, "index")
    # Of v2.1 this would measure how 300,000 missing files are told: it has one for each episode.
    table = write_v30_metadata(settings.scratch / "table", Shape(many))
    return [*listed, *_cases(settings, f"v3.0, {many:,} episodes, metadata", table, "metadata")]


def _cases(settings: Settings, scenario: str, root: Path, tier: str) -> list[Case]:
    given: dict[str, Any] = {"root": str(root), "tier": tier}
    listed = [Case(scenario, OURS, "benchmarks.cases.check", "check", given)]
    robovet = robovet_python() if settings.peers else None
    if robovet is not None:
        module = "benchmarks.peers.robovet"
        listed.append(Case(scenario, CONTENDER, module, "check", given, robovet))
    return listed


BENCHMARK = Benchmark(
    "check",
    "Checking a dataset",
    cases,
    columns=(CPU_MS, WALL_MS, PEAK_MB, note("findings", "errors, warnings")),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
