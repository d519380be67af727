"""Exporting episodes to Rerun: time and memory beside Rerun's own reader."""

from __future__ import annotations

import sys
from dataclasses import replace

from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers.rerun_reader import CONTENDER
from benchmarks.results import CPU_MS, PEAK_MB, WALL_MS, note
from roboreel import open_dataset
from roboreel.demo_arm import DemoSpec, make_demo_dataset

__all__ = ["BENCHMARK"]


def cases(settings: Settings) -> list[Case]:
    """Make the datasets and list who exports them."""
    episodes, frames = (2, 10) if settings.quick else (100, 100)
    size = (96, 128) if settings.quick else (240, 320)
    specs = {
        "AV1 video": DemoSpec(episodes=episodes, frames=frames, size=size),
        "H.264 video": DemoSpec(episodes=episodes, frames=frames, size=size, codec="h264"),
        "PNG in Parquet": DemoSpec(
            episodes=episodes, frames=frames, size=size, store="image", cameras=1
        ),
    }
    if not settings.quick:
        # What each episode costs before its first frame.
        short = replace(specs["PNG in Parquet"], frames=frames // 5)
        specs["PNG in Parquet, a fifth as long"] = short
    listed = []
    for name, spec in specs.items():
        listed += _cases(settings, f"{name}, {spec.episodes} episodes", name, spec)
    return listed


def _cases(settings: Settings, scenario: str, name: str, spec: DemoSpec) -> list[Case]:
    folder = settings.scratch / name
    root = make_demo_dataset(folder / "arm", spec)
    given = {"root": str(root), "out": str(folder / "ours")}
    listed = [Case(scenario, OURS, "benchmarks.cases.export", "export", given)]
    if settings.peers:
        theirs = {**given, "out": str(folder / "theirs"), "frames": len(open_dataset(root))}
        module = "benchmarks.peers.rerun_reader"
        listed.append(Case(scenario, CONTENDER, module, "export", theirs))
    return listed


BENCHMARK = Benchmark(
    "export",
    "Exporting episodes to Rerun",
    cases,
    columns=(CPU_MS, WALL_MS, PEAK_MB, note("megabytes", "written MB")),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
