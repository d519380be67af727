"""One point of a scenario: the run that is stopped there, and the check of what it leaves.

Everything that touches files happens in forked children, so that a process that did nothing yet can be
forked thousands of times.
"""

from __future__ import annotations

import random
import shutil
import signal
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from tests.faults import library
from tests.faults.children import FAILED, FOREIGN, in_child
from tests.faults.library import Kind, Operation, read_log
from tests.faults.powercut import Disk, Snapshot, snapshot
from tests.faults.scenario import Remains, Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.library import Call
    from tests.faults.scenario import Ending

__all__ = ["Logged", "Result", "Tries", "log_whole_run", "prepare"]

REALLY_ENDED = 10
"""Of the processes that end at a call, every tenth is run; what the others leave is computed."""


@dataclass(frozen=True)
class Result:
    """What became of one point."""

    reached: bool
    """Whether the run made that many calls."""
    problem: str | None = None
    checked: bool = True
    """False where an equal state had been checked before."""


@dataclass(frozen=True)
class Logged:
    """A whole run: what was there before, and every call."""

    before: Snapshot
    calls: list[Call]
    folder: Path

    @property
    def num_calls(self) -> int:
        """How many calls could be spoilt; notes are none."""
        return len(self.places)

    @property
    def places(self) -> list[int]:
        """Where the calls that could be spoilt are in the log."""
        return [at for at, call in enumerate(self.calls) if call.operation != Operation.NOTE]


def prepare(scenario: Scenario, folder: Path) -> None:
    """Make the folder that a scenario starts from."""
    folder.mkdir(parents=True)
    code = in_child(lambda: scenario.prepare(folder), folder.with_suffix(".err"))
    assert code == 0, folder.with_suffix(".err").read_text()


def log_whole_run(scenario: Scenario, prepared: Path, case: Path) -> Logged:
    """Run a scenario whole, with a log of all calls."""
    work, log = case / "work", case / "log"
    shutil.copytree(prepared, work)
    before = snapshot(work)
    code = in_child(lambda: _run(scenario, work, log, Kind.NOTHING, 0), case / "errors")
    assert code == 0, (case / "errors").read_text()
    return Logged(before, list(read_log(log)), work)


@dataclass(frozen=True)
class Tries:
    """The points of one scenario, tried one by one; states that are equal are checked once."""

    scenario: Scenario
    prepared: Path
    logged: Logged
    disk: Disk
    good: Path
    """A folder with an empty file for each state that was found good, shared by processes."""

    def stop_at(self, case: Path, kind: Kind, call: int) -> Result:
        """Spoil one call of a run, and check what is left."""
        work, log, errors = case / "work", case / "log", case / "errors"
        shutil.copytree(self.prepared, work)
        code = in_child(lambda: _run(self.scenario, work, log, kind, call), errors)
        calls = list(read_log(log))
        reached = sum(c.operation != Operation.NOTE for c in calls) >= call - 1
        endings: dict[int, Ending] = {0: "done", -signal.SIGKILL: "killed", FAILED: "failed"}
        if code not in endings:
            names = {-signal.SIGALRM: "hangs", FOREIGN: "a foreign error"}
            return Result(reached, f"{names.get(code, f'ended by {code}')}: {_last_lines(errors)}")
        said = [c.path for c in calls if c.operation == Operation.NOTE]
        remains = Remains(work, said, endings[code], self.good)
        return self._check(reached, remains, snapshot(work).digest(), errors)

    def end_at(self, case: Path, kind: Kind, call: int) -> Result:
        """Check what a process leaves that ends at a call; of such runs, some are made.

        What a process has written stays when it ends, so the log tells the rest.
        """
        places = self.logged.places
        if not self.scenario.moves or call % REALLY_ENDED == 0 or call > len(places):
            return self.stop_at(case, kind, call)
        at = places[call - 1]
        state = self.disk.killed(at, torn=kind is Kind.TORN)
        remains = Remains(case / "work", self._said_before(at), "killed", self.good)
        return self._check(True, remains, state.digest(), case / "errors", state)

    def cut(self, case: Path, model: str, at: int) -> Result:
        """Check what a power cut leaves before some call."""
        state = self.disk.cut(at, model, random.Random(f"{model} {at}"))
        remains = Remains(case / "work", self._said_before(at), "cut", self.good)
        return self._check(True, remains, state.digest(), case / "errors", state)

    def _said_before(self, at: int) -> list[str]:
        return [c.path for c in self.logged.calls[:at] if c.operation == Operation.NOTE]

    def _check(
        self,
        reached: bool,
        remains: Remains,
        digest: str,
        errors: Path,
        state: Snapshot | None = None,
    ) -> Result:
        key = blake2b(repr((digest, remains.said, remains.is_cut)).encode(), digest_size=16)
        mark = self.good / key.hexdigest()
        if mark.exists():
            return Result(reached, checked=False)
        if state is not None:
            state.write(remains.folder)
        code = in_child(lambda: self.scenario.verify(remains), errors)
        if code == 0:
            mark.touch()
            return Result(reached)
        what = "hangs" if code == -signal.SIGALRM else f"after it {remains.ending}"
        return Result(reached, f"{what}: {_last_lines(errors)}")


def _run(scenario: Scenario, work: Path, log: Path, kind: Kind, call: int) -> None:
    library.arm(work, log, kind, call)
    scenario.run(work, library.note)


def _last_lines(errors: Path) -> str:
    lines = errors.read_text(errors="replace").strip().splitlines() if errors.exists() else []
    return " | ".join(line.strip() for line in lines[-1:])[:400]
