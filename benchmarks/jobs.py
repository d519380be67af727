"""Jobs: what they cost beside the work itself, and what a second process brings."""

from __future__ import annotations

import sys

from benchmarks.cases.jobs import WAYS
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers import peers_python
from benchmarks.ray_reading import can_run
from benchmarks.results import CPU_MS, PEAK_MB, WALL_MS, note
from roboreel.demo_arm import DemoSpec, make_demo_dataset

__all__ = ["BENCHMARK"]

_MODULE = "benchmarks.cases.jobs"
PEER = "0.6.1"


def cases(settings: Settings) -> list[Case]:
    """List the plan of a million tasks, tasks that only compute, and two operations."""
    many = 1_000 if settings.quick else 1_000_000
    return [
        Case(f"a plan of {many:,} tasks", OURS, _MODULE, "plan", {"tasks": many}),
        *_overhead(settings),
        *_operations(settings),
        *_ray(settings),
    ]


def _overhead(settings: Settings) -> list[Case]:
    tasks, task_s = (2, 0.01) if settings.quick else (4, 10.0)
    scenario = f"tasks of {task_s:g} s"
    ways = WAYS[:3] if settings.quick else WAYS[:4]
    given = {"tasks": tasks, "task_s": task_s}
    return [
        Case(scenario, f"{OURS}, {way}", _MODULE, "overhead", {**given, "way": way}) for way in ways
    ]


def _operations(settings: Settings) -> list[Case]:
    episodes, frames, size = (2, 8, (48, 64)) if settings.quick else (60, 300, (480, 640))
    spec = DemoSpec(episodes, frames, cameras=1, size=size, codec="h264")
    root = make_demo_dataset(settings.scratch / "arm", spec)
    given = {"root": str(root), "frames": episodes * frames}
    scenario = f"{episodes * frames:,} frames of {size[1]} x {size[0]}"
    ways = WAYS[2:3] if settings.quick else WAYS[3:5]
    return [
        Case(scenario, f"{OURS}, {way}", _MODULE, function, {**given, "way": way})
        for function in ("statistics", "materialize")
        for way in ways
    ]


def _ray(settings: Settings) -> list[Case]:
    """List the readers of Ray Data that can run here, over the same dataset."""
    if settings.quick or not can_run(sys.executable):
        return []
    # Ray's own reader takes a minute of CPU for each thousand images, and both read all of them twice.
    spec = DemoSpec(4, 75, size=(480, 640), codec="h264")
    root = make_demo_dataset(settings.scratch / "ray", spec)
    given = {"root": str(root), "cameras": 2}
    scenario = "Ray Data, about 600 images of 640 x 480"
    listed = [Case(scenario, OURS, _MODULE, "ray_data", {**given, "reader": "roboreel"})]
    python = peers_python(PEER) if settings.peers else None
    if python is not None and can_run(python):
        theirs = {**given, "reader": "lerobot"}
        contender = f"ray.data.read_lerobot, LeRobot {PEER}"
        listed.append(Case(scenario, contender, _MODULE, "ray_data", theirs, python=python))
    return listed


BENCHMARK = Benchmark(
    "jobs",
    "Jobs",
    cases,
    rounds=1,
    columns=(
        CPU_MS,
        WALL_MS,
        PEAK_MB,
        note("tasks", "tasks"),
        note("images_per_cpu_s", "images a CPU second"),
    ),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
