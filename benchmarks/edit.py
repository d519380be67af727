"""Editing a dataset: delete, trim, merge and convert beside LeRobot's own editor and converter."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers import peers_python
from benchmarks.results import CPU_MS, PEAK_MB, WALL_MS, note
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.edit import plan_conversion, plan_merge

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]

PEER = "0.6.1"
CONTENDER = f"LeRobot {PEER}"


def cases(settings: Settings) -> list[Case]:
    """Make the datasets and list who edits them."""
    episodes, frames = (4, 10) if settings.quick else (200, 20)
    size = (96, 128) if settings.quick else (480, 640)
    v30, v21 = make_datasets(settings.scratch / "edit", episodes, frames, size)
    half, _ = make_datasets(settings.scratch / "half", episodes // 2, frames, size)
    out = settings.scratch / "out"
    given = {
        "delete 1 episode": ("delete", {"root": str(v30), "out": str(out / "delete")}),
        "trim 1 episode": ("trim", {"root": str(v30), "out": str(out / "trim")}),
        f"merge 2 x {episodes // 2}": ("merge", {"root": str(half), "out": str(out / "merge")}),
        "convert v2.1 to v3.0": ("convert", {"root": str(v21), "out": str(out / "convert")}),
    }
    listed = []
    python = peers_python(PEER) if settings.peers else None
    for name, (function, arguments) in given.items():
        of = "" if function == "merge" else f", {episodes}"
        scenario = f"{name}{of} episodes of about {frames} frames, 2 cameras"
        listed.append(Case(scenario, OURS, "benchmarks.cases.edit", function, arguments))
        if python is not None and function != "trim":  # which LeRobot does not offer
            theirs = {**arguments, "out": f"{arguments['out']}-peer"}
            module = "benchmarks.peers.lerobot_edit"
            listed.append(Case(scenario, CONTENDER, module, function, theirs, python=python))
    return listed


def make_datasets(
    folder: Path, episodes: int, frames: int, size: tuple[int, int]
) -> tuple[Path, Path]:
    """Return a dataset of v3.0 and one of v2.1, of few episodes that are repeated."""
    few = min(4, episodes)
    seed = make_demo_dataset(folder / "seed", DemoSpec(few, frames, size=size))
    times = max(1, episodes // few)
    if times == 1:
        plan_conversion(seed, "v2.1", folder / "v21").apply()
    else:
        plan_merge([seed] * times, folder / "merged").apply()
        plan_conversion(folder / "merged", "v2.1", folder / "v21").apply()
        shutil.rmtree(folder / "merged")
    plan_conversion(folder / "v21", "v3.0", folder / "v30").apply()
    return folder / "v30", folder / "v21"


BENCHMARK = Benchmark(
    "edit",
    "Editing without loss",
    cases,
    columns=(WALL_MS, CPU_MS, PEAK_MB, note("changed", "images that changed")),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
