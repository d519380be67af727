"""Recording two cameras at 30 frames a second: how long each call takes, beside LeRobot."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from benchmarks.datasets import TASKS, Shape, write_v30
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers import lerobot_record
from benchmarks.results import CPU_MS, PEAK_MB, note
from roboreel.format.tables_v3 import write_texts

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]

_OURS = "benchmarks.cases.record"
_SIZE, _FPS = (480, 640), 30


def cases(settings: Settings) -> list[Case]:
    """List who records, into an empty dataset and into a long one."""
    pace = {"episodes": 2, "frames": 4} if settings.quick else {"episodes": 8, "frames": 90}
    given = {**pace, "fps": _FPS, "size": _SIZE}
    long = 20 if settings.quick else 1_000
    listed: list[Case] = []
    for number, episodes in enumerate((1, long)):
        scenario = f"at {episodes:,} episode{'s' * (episodes > 1)}"
        for contender, module, further in _contenders(settings):
            root = settings.scratch / f"{number}-{len(listed)}"
            _prepare(root, episodes)
            everything = {"root": str(root), **given, **further}
            listed.append(
                Case(
                    scenario,
                    contender,
                    module,
                    "record",
                    everything,
                    sys.executable if contender == OURS else settings.peers or "",
                )
            )
    return listed


def _contenders(settings: Settings) -> list[tuple[str, str, dict[str, Any]]]:
    ours: tuple[str, str, dict[str, Any]] = (OURS, _OURS, {})
    if settings.peers is None:
        return [ours]
    module = lerobot_record.__name__
    return [
        ours,
        (lerobot_record.CONTENDER, module, {"streaming": False}),
        (lerobot_record.STREAMING, module, {"streaming": True}),
    ]


def _prepare(root: Path, episodes: int) -> None:
    if episodes > 1:
        write_v30(root, Shape(episodes, mean_length=9, episodes_per_row_group=10))
        # With the text as pandas' index, without which LeRobot adds no episodes.
        write_texts(root / "meta" / "tasks.parquet", dict(enumerate(TASKS)), "task")


BENCHMARK = Benchmark(
    "record",
    "Recording two cameras of 480x640 at 30 frames a second",
    cases,
    # A dataset grows with every round: one round, of many calls.
    rounds=1,
    columns=(
        note("add_p50_ms", "add p50 ms"),
        note("add_p99_ms", "add p99 ms"),
        note("add_max_ms", "add max ms"),
        note("save_p50_ms", "save p50 ms"),
        note("save_p99_ms", "save p99 ms"),
        note("save_max_ms", "save max ms"),
        note("dropped", "images dropped"),
        CPU_MS,
        PEAK_MB,
    ),
    plots=(note("save_p99_ms", "save p99 ms"), note("add_p99_ms", "add p99 ms")),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
