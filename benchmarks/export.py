"""Exporting episodes to Rerun: time and memory beside Rerun's own reader."""

from __future__ import annotations

import sys
from dataclasses import replace

from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers.rerun_reader import CONTENDER
from benchmarks.results import CPU_MS, PEAK_MB, WALL_MS, note
from roboreel import open_dataset
from roboreel.demo_arm import Sample, make_sample

__all__ = ["BENCHMARK"]


def cases(settings: Settings) -> list[Case]:
    """Make the datasets and list who exports them."""
    episodes, frames = (2, 10) if settings.quick else (100, 100)
    size = (96, 128) if settings.quick else (240, 320)
    samples = {
        "AV1 video": Sample(episodes=episodes, frames=frames, size=size),
        "H.264 video": Sample(episodes=episodes, frames=frames, size=size, codec="h264"),
        "PNG in Parquet": Sample(
            episodes=episodes, frames=frames, size=size, store="image", cameras=1
        ),
    }
    if not settings.quick:
        # What each episode costs before its first frame.
        short = replace(samples["PNG in Parquet"], frames=frames // 5)
        samples["PNG in Parquet, a fifth as long"] = short
    listed = []
    for name, sample in samples.items():
        listed += _cases(settings, f"{name}, {sample.episodes} episodes", name, sample)
    return listed


def _cases(settings: Settings, scenario: str, name: str, sample: Sample) -> list[Case]:
    folder = settings.scratch / name
    root = make_sample(folder / "arm", sample)
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
