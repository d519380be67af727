"""A benchmark: cases of several contenders, run in turns, and what came out."""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import report
from benchmarks.origin import Origin
from benchmarks.peers import peers_python
from benchmarks.process import PROJECT, Measurement, run_case
from benchmarks.results import DEFAULT_COLUMNS, DEFAULT_PLOTS, OURS, Column, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "AGAINST",
    "OURS",
    "Benchmark",
    "Case",
    "Column",
    "Row",
    "Settings",
    "measure",
    "with_checkout",
]

RESULTS = Path(__file__).parent / "results"
AGAINST = f"{OURS}, other checkout"


@dataclass(frozen=True)
class Case:
    """What one contender does, in a process of its own."""

    scenario: str
    """What is measured, the same for all contenders: a group of the table."""
    contender: str
    """Who does it: `OURS`, ``"LeRobot 0.4.4"``, …"""
    module: str
    """Where the function is. It imports that contender alone."""
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    python: str | Path = sys.executable
    watch: tuple[Path, ...] = ()
    """Folders whose growth counts as disk use, beside the caches and temporary files."""
    home: str | None = None
    """Cases of one home share a cache folder, in the order they are listed; new every round."""
    environment: Mapping[str, str] = field(default_factory=dict)
    checkout: Path = PROJECT
    """The checkout of roboreel whose package and cases are run."""


@dataclass(frozen=True)
class Settings:
    """What the person at the keyboard chose, as a benchmark's ``cases`` sees it."""

    scratch: Path
    """A folder for datasets; removed afterwards."""
    quick: bool
    """Tiny inputs: to see that the benchmark runs, not to learn a number."""
    peers: Path | None
    """The peers' interpreter, or None: then give the cases of ours alone."""


@dataclass(frozen=True)
class Benchmark:
    """A claim about speed, ready to be run."""

    name: str
    title: str
    cases: Callable[[Settings], Sequence[Case]]
    """Makes what the cases need, and lists them."""
    rounds: int = 5
    columns: tuple[Column, ...] = DEFAULT_COLUMNS
    plots: tuple[Column, ...] = DEFAULT_PLOTS

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run from the command line: measure, print the table, write JSON and a plot."""
        chosen = parser(self.title).parse_args(arguments)
        clean_up_when_ended()
        self.run(
            quick=chosen.quick,
            peers=None if chosen.no_peers else peers_python(),
            out=chosen.out,
            rounds=chosen.rounds,
            against=chosen.against,
        )
        return 0

    def run(
        self,
        *,
        quick: bool,
        peers: Path | None,
        out: Path | None,
        rounds: int | None = None,
        against: Path | None = None,
    ) -> list[Row]:
        """Measure all cases in turns; print and write what came out.

        Args:
            quick: Tiny inputs and one round.
            peers: The peers' interpreter; None measures ours alone.
            out: Folder of the JSON and the plot. None writes to benchmarks/results, or, if quick,
                nowhere, so that no real result is lost to a tiny one.
            rounds: How often each case is measured; as the benchmark says when None.
            against: Another checkout of roboreel, such as one before a change. It takes turns with
                this one in every case of ours.
        """
        console, origin = Console(), Origin.now()
        with tempfile.TemporaryDirectory(prefix=f"bench-{self.name}-") as scratch:
            cases = self.cases(Settings(Path(scratch), quick, peers))
            if against is not None:
                cases = with_checkout(cases, against.resolve())
            rows = measure(
                cases,
                rounds=rounds or (1 if quick else self.rounds),
                homes=Path(scratch, "homes"),
                console=console,
            )
        report.print_table(self.title, rows, self.columns, console)
        if peers is None:
            console.print("Without peers. Make them with: python -m benchmarks.peers setup")
        folder = out or (None if quick else RESULTS)
        if folder is not None:
            report.write(self.name, self.title, rows, self.plots, folder, origin)
            console.print(f"Wrote {self.name}.json and {self.name}.png")
        return rows


def parser(title: str) -> argparse.ArgumentParser:
    """Return the command line that all benchmarks share."""
    options = argparse.ArgumentParser(description=title)
    options.add_argument("--quick", action="store_true", help="tiny inputs, one round")
    options.add_argument("--rounds", type=int, help="how often each case is measured")
    options.add_argument("--no-peers", action="store_true", help="measure ours alone")
    options.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="compare with another checkout of roboreel"
    )
    options.add_argument("--out", type=Path, help="folder for the JSON and the plot")
    return options


def with_checkout(cases: Sequence[Case], checkout: Path) -> list[Case]:
    """Add each case of ours again, run with the package and the cases of another checkout."""
    both = []
    for case in cases:
        both.append(case)
        if case.contender == OURS:
            # Caches of the two must not meet.
            home = f"{case.home}-against" if case.home else None
            both.append(replace(case, contender=AGAINST, home=home, checkout=checkout))
    return both


def clean_up_when_ended() -> None:
    """Let a polite end from outside remove the datasets and the measured process, as Ctrl-C does.

    By default Python stops at once on SIGTERM, and gigabytes of scratch stay behind.
    """
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def measure(
    cases: Sequence[Case], *, rounds: int, homes: Path, console: Console | None = None
) -> list[Row]:
    """Run every case once a round, contenders in turns, and return the medians.

    In turns, because a shared machine is faster in one minute than in the next: what is compared
    has to run side by side.
    """
    taken: list[list[Measurement]] = [[] for _ in cases]
    console = console or Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("", total=rounds * len(cases))
        for turn in range(rounds):
            for number, case in enumerate(cases):
                progress.update(bar, description=f"{case.scenario} · {case.contender}")
                home = homes / f"{turn}-{case.home or number}"
                taken[number].append(_run(case, home))
                progress.advance(bar)
    return [row for case, runs in zip(cases, taken, strict=True) for row in _rows(case, runs)]


def _run(case: Case, home: Path) -> Measurement:
    return run_case(
        case.python,
        case.module,
        case.function,
        case.arguments,
        home=home,
        watch=case.watch,
        environment=case.environment,
        checkout=case.checkout,
    )


def _rows(case: Case, runs: Sequence[Measurement]) -> list[Row]:
    return [_row(case, step, runs) for step in range(len(runs[0].steps))]


def _row(case: Case, number: int, runs: Sequence[Measurement]) -> Row:
    """Return the medians of one step of a case over its rounds."""
    steps = [run.steps[number] for run in runs]
    held = [
        step.memory_after - step.memory_before
        for step in steps
        if step.memory_after is not None and step.memory_before is not None
    ]
    return Row(
        scenario=case.scenario,
        step=steps[0].name,
        contender=case.contender,
        count=steps[0].count,
        cpu_s=statistics.median(step.cpu_s for step in steps),
        wall_s=statistics.median(step.wall_s for step in steps),
        held_bytes=_median(held),
        peak_bytes=_median([peak for run in runs if (peak := run.peaks[number]) is not None]),
        disk_bytes=max(step.disk_bytes for step in steps),
        notes={name: statistics.median(run.notes[name] for run in runs) for name in runs[0].notes},
        cpu_rounds_s=tuple(step.cpu_s for step in steps),
        versions=dict(runs[0].versions),
    )


def _median(values: Sequence[int]) -> float | None:
    return statistics.median(values) if values else None
