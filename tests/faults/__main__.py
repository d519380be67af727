"""Stops every writer at every call that changes a file, in every way, and checks what is left.

``python -m tests.faults`` does it all; ``--points 12`` takes so many of each scenario. Points that were
found good are noted in ``.crash/`` and not done again until the code changes. Ends with 1 if anything was
lost.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from functools import cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.faults.library import Kind, Operation, build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faults.library import Call
    from tests.faults.scenario import Scenario

PROJECT = Path(__file__).resolve().parents[2]
WAYS = [kind.name.lower() for kind in Kind if kind is not Kind.NOTHING]


def main() -> None:
    """Read the arguments; start again with the library loaded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", help="names of scenarios")
    parser.add_argument("--points", type=int, help="so many points of each scenario, spread out")
    parser.add_argument("--every", action="store_true", help="all writes of a run of writes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--state", type=Path, help="where good points are noted")
    parser.add_argument("--ways", nargs="*", help="such as kill, eio, strict")
    parser.add_argument("--counts", type=Path, help="a file that counts are added to")
    given = parser.parse_args()
    if "LD_PRELOAD" in os.environ:
        sys.exit(run(given))
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "LD_PRELOAD": str(build(Path(folder)))}
        command = [sys.executable, "-m", "tests.faults", *sys.argv[1:]]
        sys.exit(subprocess.run(command, cwd=PROJECT, env=environment, check=False).returncode)


def run(given: argparse.Namespace) -> int:
    """Try the points of all scenarios."""
    from tests.faults.changing import SCENARIOS as CHANGING
    from tests.faults.products import SCENARIOS as PRODUCTS
    from tests.faults.products import start_hub
    from tests.faults.recording import SCENARIOS as RECORDING

    chosen = [
        s for s in [*RECORDING, *CHANGING, *PRODUCTS] if not given.only or s.name in given.only
    ]
    problems = 0
    fast = Path("/dev/shm")
    with TemporaryDirectory(dir=fast if os.access(fast, os.W_OK) else None) as scratch:
        wants_hub = any(scenario.name == "download" for scenario in chosen)
        hub = start_hub(Path(scratch) / "hub" / "dataset") if wants_hub else None
        try:
            for scenario in chosen:
                problems += Campaign(scenario, Path(scratch), given).run()
        finally:
            if hub is not None:
                os.kill(hub, signal.SIGKILL)
                os.waitpid(hub, 0)
    return int(problems > 0)


class Campaign:
    """All points of one scenario, some at a time."""

    def __init__(self, scenario: Scenario, scratch: Path, given: argparse.Namespace) -> None:
        self.scenario, self.given = scenario, given
        self.folder = scratch / scenario.name.replace(", ", "-").replace(" ", "-")
        self.prepared = self.folder / "prepared"
        self.done = self._read_done()
        self.problems: list[str] = []
        self.counts: dict[str, int] = {}
        self.counted = {"points": 0, "problems": 0}
        self.most = 0
        """How many points there are."""

    def run(self) -> int:
        """Try the points; return how many problems there are."""
        from tests.faults.points import log_whole_run, prepare
        from tests.faults.powercut import Disk

        for module in self.scenario.modules:
            importlib.import_module(module)
        prepare(self.scenario, self.prepared)
        (self.folder / "whole").mkdir()
        self.logged = log_whole_run(self.scenario, self.prepared, self.folder / "whole")
        self.disk = Disk(self.logged.folder, self.logged.before, self.logged.calls)
        if not self._is_complete():
            return 1
        points = self._points()
        self._try_all([point for point in points if f"{point[0]} {point[1]}" not in self.done])
        self._add_counts()
        summary = ", ".join(f"{way} {count}" for way, count in sorted(self.counts.items()))
        print(
            f"{self.scenario.name}: {self.logged.num_calls} calls; {sum(self.counts.values())} points "
            f"({summary}); {len(self.problems)} problems",
            flush=True,
        )
        return len(self.problems)

    def _is_complete(self) -> bool:
        """Whether the log holds all that changed the folder: replayed, it gives the same."""
        from tests.faults.powercut import snapshot

        self.disk.whole(self.folder / "replayed")
        left, replayed = snapshot(self.logged.folder), snapshot(self.folder / "replayed")
        same = (left.names, left.contents, left.links) == (
            replayed.names,
            replayed.contents,
            replayed.links,
        )
        if not same:
            print(f"{self.scenario.name}: the log lacks a call that changed the folder")
        return same

    def _points(self) -> list[tuple[str, int]]:
        from tests.faults.powercut import MODELS

        made = [c for c in self.logged.calls if c.operation != Operation.NOTE]
        calls = places(made, every=self.given.every)
        # A few more, since threads make a run longer now and then.
        more = range(len(made) + 1, len(made) + 4) if self.given.points is None else range(0)
        points = [(way, call) for way in WAYS for call in [*calls, *more]]
        if self.scenario.survives_power_cuts:
            cuts = places(self.logged.calls, every=self.given.every)
            points += [(model, at) for model in MODELS for at in cuts]
        self.most = len(points) - len(WAYS) * len(more)
        if self.given.ways:
            points = [point for point in points if point[0] in self.given.ways]
        if self.given.points is not None and len(points) > self.given.points:
            # One of every way first, then spread by chance, the same every time.
            chance = random.Random(self.scenario.name)
            chance.shuffle(points)
            seen: dict[str, int] = {}
            rank = {}
            for point in points:
                rank[point] = seen[point[0]] = seen.get(point[0], -1) + 1
            points = sorted(points, key=rank.__getitem__)[: self.given.points]
        return points

    def _try_all(self, points: list[tuple[str, int]]) -> None:
        running: dict[int, tuple[str, int, Path]] = {}
        for number, (way, place) in enumerate(points):
            while len(running) >= self.given.jobs:
                self._collect(running)
            case = self.folder / f"case-{number}"
            case.mkdir()
            child = os.fork()
            if child == 0:
                self._try_one(way, place, case)
            running[child] = (way, place, case)
        while running:
            self._collect(running)

    def _try_one(self, way: str, place: int, case: Path) -> None:
        """In a child: try a point, and leave the result beside it."""
        from tests.faults.points import stop_at, try_cut

        try:
            if way in WAYS:
                kind = Kind[way.upper()]
                result = stop_at(self.scenario, self.prepared, case, kind, place)
            else:
                result = try_cut(self.scenario, self.logged, self.disk, case, way, place)
            (case / "result").write_text(json.dumps([result.reached, result.problem]))
            os._exit(0)
        except BaseException:  # noqa: BLE001  # the child must end here, whatever happens
            import traceback

            traceback.print_exc()
            os._exit(1)

    def _collect(self, running: dict[int, tuple[str, int, Path]]) -> None:
        child, status = os.waitpid(-1, 0)
        if child not in running:
            return
        way, place, case = running.pop(child)
        failed = [True, "the rig itself failed"]
        reached, problem = failed if status else json.loads((case / "result").read_text())
        if problem is not None:
            self.problems.append(f"{way} {place}")
            print(f"{self.scenario.name}, {way} at {place}: {problem}", flush=True)
            self._keep(case, way, place)
        elif self.given.state is not None:
            with self._state.open("a") as file:
                file.write(f"{way} {place}\n")
        if reached:
            self.counts[way] = self.counts.get(way, 0) + 1
        if sum(self.counts.values()) - self.counted["points"] >= 20:  # The run may be stopped.
            self._add_counts()
        shutil.rmtree(case, ignore_errors=True)

    def _keep(self, case: Path, way: str, place: int) -> None:
        if self.given.state is not None:
            target = self.given.state / "problems" / f"{self.folder.name}-{way}-{place}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(case, target, symlinks=True)

    @property
    def _state(self) -> Path:
        assert self.given.state is not None
        return Path(self.given.state) / f"{self.folder.name}-{_code_version()}.txt"

    def _read_done(self) -> set[str]:
        if self.given.state is None:
            return set()
        self.given.state.mkdir(parents=True, exist_ok=True)
        return set(self._state.read_text().splitlines()) if self._state.exists() else set()

    def _add_counts(self) -> None:
        """Add what was tried since the last time to the counts."""
        from tests.measured import add_counts

        if self.given.counts is not None:
            now = {"points": sum(self.counts.values()), "problems": len(self.problems)}
            new = {key: number - self.counted[key] for key, number in now.items()}
            self.counted = now
            add_counts("writer", self.scenario.name, new, self.given.counts, different=self.most)


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


@cache
def _code_version() -> str:
    digest = hashlib.sha256()
    for path in sorted((PROJECT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    main()
