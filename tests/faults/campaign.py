"""All points of one scenario: which there are, tried by some processes, and counted."""

from __future__ import annotations

import random
import resource
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from roboreel.format.paths import DECIDED_FOLDER
from tests.faults.children import import_all
from tests.faults.library import Kind, Operation
from tests.faults.points import Result, Tries, files_that_run, log_whole_run, prepare
from tests.faults.powercut import MODELS, Disk, snapshot
from tests.faults.version import version_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from tests.faults.library import Call
    from tests.faults.scenario import Scenario

__all__ = ["Campaign", "places"]

WAYS = [kind.name.lower() for kind in Kind if kind is not Kind.NOTHING]
_GROWING = (
    Operation.CREATE, Operation.WRITE, Operation.MKDIR, Operation.LINK, Operation.SYMLINK, Operation.GROW
)  # fmt: skip
ONLY_AT = {"torn": (Operation.WRITE,), "short": (Operation.WRITE,), "enospc": _GROWING}
"""Ways that differ from another one at these calls only: no sync can be torn, and none lacks room."""


class Point(NamedTuple):
    """A call, and what happens there."""

    way: str
    place: int

    def __str__(self) -> str:
        return f"{self.way} {self.place}"


class Campaign:
    """All points of one scenario, some at a time."""

    def __init__(self, scenario: Scenario, scratch: Path, given: argparse.Namespace) -> None:
        self.scenario, self.given = scenario, given
        self.folder = scratch / scenario.name.replace(", ", "-").replace(" ", "-")
        self.problems: list[Point] = []
        self.counts: dict[str, int] = {}
        self.num_states = 0
        """How many different states were checked."""
        self.counted = {"points": 0, "problems": 0}
        self.all: set[str] = set()
        """All points that there are."""
        self.covered: set[str] = set()
        """Those that this version of the code has been stopped at, now or in an earlier run."""
        self.version = ""
        """Of the files that the scenario depends on."""

    def run(self) -> int:
        """Try the points; return how many problems there are."""
        start_s = _cpu_s()
        import_all(self.scenario.modules)
        self.tries = self._prepared()
        if not self._is_complete():
            return 1
        points, done = self._points(), self._read_done()
        self.covered = done & self.all
        self._try_all([point for point in points if str(point) not in done])
        self._add_counts()
        summary = ", ".join(f"{way} {count}" for way, count in sorted(self.counts.items()))
        print(
            f"{self.scenario.name}: {self.tries.logged.num_calls} calls; "
            f"{sum(self.counts.values())} points ({summary}) left {self.num_states} states; "
            f"{_cpu_s() - start_s:.0f} CPU seconds; {len(self.problems)} problems",
            flush=True,
        )
        shutil.rmtree(self.folder)
        return len(self.problems)

    def _prepared(self) -> Tries:
        folders = ("prepared", "whole", "good", "traced")
        prepared, whole, good, traced = (self.folder / name for name in folders)
        prepare(self.scenario, prepared)
        for folder in (whole, good, traced):
            folder.mkdir()
        checks = Path(sys.modules[self.scenario.home].__file__ or "")
        self.version = version_of(files_that_run(self.scenario, prepared, traced), [checks])
        logged = log_whole_run(self.scenario, prepared, whole)
        disk = Disk(logged.folder, logged.before, logged.calls)
        return Tries(self.scenario, prepared, logged, disk, good)

    def _is_complete(self) -> bool:
        """Whether the log holds all that changed the folder: replayed, it gives the same."""
        left = snapshot(self.tries.logged.folder)
        same = self.scenario.maps or left.digest() == self.tries.disk.whole().digest()
        if not same:
            print(f"{self.scenario.name}: the log lacks a call that changed the folder")
        return same

    def _points(self) -> list[Point]:
        points = list(self._all_points())
        self.all = set(map(str, points))
        if self.given.points is None:
            # A few more, since threads make a run longer now and then.
            calls = self.tries.logged.num_calls
            points += [Point(way, calls + more) for way in WAYS for more in (1, 2, 3)]
        if self.given.ways:
            points = [point for point in points if point.way in self.given.ways]
        if self.given.points is not None and len(points) > self.given.points:
            points = spread(points, self.given.points, self.scenario.name)
        return points

    def _all_points(self) -> Iterator[Point]:
        calls = self.tries.logged.calls
        made = [call for call in calls if call.operation != Operation.NOTE]
        chosen = self._wanted(made)
        for way in WAYS:
            for place in chosen:
                if made[place - 1].operation in ONLY_AT.get(way, tuple(Operation)):
                    yield Point(way, place)
        if self.scenario.survives_power_cuts and not self.scenario.maps:
            cuts = self._wanted(calls)
            yield from (Point(model, at) for model in MODELS for at in cuts)

    def _wanted(self, calls: Sequence[Call]) -> list[int]:
        """Return where to stop; if the commit has a fault, after a decision."""
        found = places(calls, every=self.given.every)
        if self.given.mutant is None:
            return found
        decided = [at for at, c in enumerate(calls) if c.other.endswith(f"/{DECIDED_FOLDER}")]
        return [place for place in found if place > decided[0]]

    def _try_all(self, points: list[Point]) -> None:
        global _trying
        _trying = self
        with ProcessPoolExecutor(self.given.jobs, mp_context=get_context("fork")) as workers:
            numbered = {
                workers.submit(_try_one, number, point): (number, point)
                for number, point in enumerate(points)
            }
            for future in as_completed(numbered):
                number, point = numbered.pop(future)
                result, modules = future.result()
                self._collect(point, result, self.folder / f"case-{number}")
                import_all(modules)

    def _collect(self, point: Point, result: Result, case: Path) -> None:
        if result.problem is not None:
            self.problems.append(point)
            print(
                f"{self.scenario.name}, {point.way} at {point.place}: {result.problem}", flush=True
            )
            self._keep(case, point)
        elif self.given.state is not None:
            with self._state.open("a") as file:
                file.write(f"{point}\n")
        self.covered |= {str(point)} & self.all
        if result.reached:
            self.counts[point.way] = self.counts.get(point.way, 0) + 1
        self.num_states += result.checked
        if sum(self.counts.values()) - self.counted["points"] >= 100:  # The run may be stopped.
            self._add_counts()
        shutil.rmtree(case, ignore_errors=True)

    def try_one(self, number: int, point: Point) -> Result:
        """Try a point, in one of the processes."""
        case = self.folder / f"case-{number}"
        case.mkdir()
        if point.way not in WAYS:
            return self.tries.cut(case, point.way, point.place)
        kind = Kind[point.way.upper()]
        act = self.tries.end_at if kind in (Kind.KILL, Kind.TORN) else self.tries.stop_at
        return act(case, kind, point.place)

    def _keep(self, case: Path, point: Point) -> None:
        if self.given.state is not None:
            target = self.given.state / "problems" / f"{self.folder.name}-{point.way}-{point.place}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(case, target, symlinks=True)

    @property
    def _state(self) -> Path:
        assert self.given.state is not None
        return Path(self.given.state) / f"{self.folder.name}-{self.version}.txt"

    def _read_done(self) -> set[str]:
        if self.given.state is None:
            return set()
        self.given.state.mkdir(parents=True, exist_ok=True)
        return set(self._state.read_text().splitlines()) if self._state.exists() else set()

    def _add_counts(self) -> None:
        """Add what was tried since the last time to the counts."""
        from tests.measured import add_counts, read_counts

        if self.given.counts is not None:
            now = {"points": sum(self.counts.values()), "problems": len(self.problems)}
            new = {key: number - self.counted[key] for key, number in now.items()}
            self.counted = now
            facts = {
                "different": len(self.all),
                "covered": len(self.covered),
                "failing": len(self.problems),
            }
            row = read_counts(self.given.counts).get("writer", {}).get(self.scenario.name, {})
            if row.get("covered", 0) > len(self.covered):  # by an earlier version of the code
                facts = {}
            add_counts("writer", self.scenario.name, new, self.given.counts, **facts)


_trying: Campaign
"""What the processes that are forked work on."""


def _try_one(number: int, point: Point) -> tuple[Result, list[str]]:
    return _trying.try_one(number, point), list(sys.modules)


def spread(points: Sequence[Point], several: int, seed: str) -> list[Point]:
    """Return some points by chance, the same every time: one of every way first."""
    shuffled = random.Random(seed).sample(points, len(points))
    seen: dict[str, int] = {}
    rank = {}
    for point in shuffled:
        rank[point] = seen[point.way] = seen.get(point.way, -1) + 1
    return sorted(shuffled, key=rank.__getitem__)[:several]


def places(calls: Sequence[Call], *, every: bool) -> list[int]:
    """Return the numbers of the calls to stop at, from 1 on.

    pyarrow writes a small file in hundreds of writes. Of a run of writes to one file, the first two,
    the one in the middle and the last are enough: the others leave the same file a bit longer.
    """
    chosen: set[int] = set()
    for _, run in groupby(range(len(calls)), lambda i: (calls[i].operation, calls[i].path)):
        numbers = list(run)
        several = numbers if every else [*numbers[:2], numbers[len(numbers) // 2], numbers[-1]]
        chosen |= {number + 1 for number in several}
    return sorted(chosen)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
