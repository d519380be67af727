"""Checking a dataset: what it costs beside robovet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from benchmarks.check_datasets import repeat_episodes, touch_files
from benchmarks.datasets import Shape, write_v21_metadata, write_v30_metadata
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers.robovet import CONTENDER, robovet_python
from benchmarks.results import CPU_MS, PEAK_MB, WALL_MS, note
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.format import read_manifest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]

_WRITERS = {"v3.0": write_v30_metadata, "v2.1": write_v21_metadata}


def cases(settings: Settings) -> list[Case]:
    """Make the datasets and list who checks them."""
    return [*_whole_datasets(settings), *_metadata(settings)]


def _whole_datasets(settings: Settings) -> list[Case]:
    """List cases that read every number and every packet table, and decode nothing."""
    distinct, times, frames = (2, 2, 8) if settings.quick else (10, 100, 300)
    # No image is decoded, so that their size does not matter.
    spec = DemoSpec(distinct, frames, cameras=2, size=(48, 64), codec="h264", version="2.1")
    source = make_demo_dataset(settings.scratch / "arm", spec)
    listed = []
    for version in _WRITERS:
        root = settings.scratch / f"arm-{version}"
        repeat_episodes(source, root, times=times, version=version)
        scenario = (
            f"{version}, {distinct * times:,} episodes of {frames} frames, 2 cameras, not decoded"
        )
        listed += _cases(settings, scenario, root, "index")
    return listed


def _metadata(settings: Settings) -> list[Case]:
    """List cases that look at the metadata, and at which files there are."""
    many = 40 if settings.quick else 100_000
    listed = []
    for version, write in _WRITERS.items():
        scenario = f"{version}, {many:,} episodes, metadata"
        there = write(settings.scratch / f"there-{version}", Shape(many))
        touch_files(read_manifest(there))
        missing = write(settings.scratch / f"missing-{version}", Shape(many))
        listed += _cases(settings, scenario, there, "metadata")
        # Ours alone: robovet takes minutes and gigabytes for 100,000 episodes.
        listed += _cases(settings, f"{scenario}, all files missing", missing, "metadata")[:1]
    return listed


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
    rounds=3,
    columns=(CPU_MS, WALL_MS, PEAK_MB, note("findings", "errors, warnings")),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
