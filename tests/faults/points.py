"""One point of a scenario: the run that is stopped there, and the check of what it leaves.

Everything that touches files happens in forked children, so that a process that did nothing yet can be
forked thousands of times.
"""

from __future__ import annotations

import random
import shutil
import signal
import uuid
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, tzinfo
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from roboreel.commit import store
from roboreel.format import manifest_state
from tests.faults import library
from tests.faults.children import FAILED, FOREIGN, in_child
from tests.faults.library import Kind, Operation, read_log
from tests.faults.powercut import Disk, Snapshot, snapshot
from tests.faults.scenario import Remains, Scenario
from tests.faults.version import list_executed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.library import Call
    from tests.faults.scenario import Ending

__all__ = ["Logged", "Result", "Tries", "files_that_run", "log_whole_run", "prepare"]

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

    def act() -> None:
        _make_repeatable(1)
        scenario.prepare(folder)

    _in_good_child(act, folder.with_suffix(".err"))


def log_whole_run(scenario: Scenario, prepared: Path, case: Path) -> Logged:
    """Run a scenario whole, with a log of all calls."""
    work, log = case / "work", case / "log"
    shutil.copytree(prepared, work)
    before = snapshot(work)
    _in_good_child(lambda: _run(scenario, work, log, Kind.NOTHING, 0), case / "errors")
    return Logged(before, list(read_log(log)), work)


def files_that_run(scenario: Scenario, prepared: Path, case: Path) -> set[Path]:
    """Return the files of the library whose code a whole run executes, and the check of what it leaves."""
    work, said = case / "work", case / "said"
    shutil.copytree(prepared, work)

    def run() -> None:
        with said.open("w") as file:
            _make_repeatable(0)
            scenario.run(work, lambda text: print(text, file=file))

    def verify() -> None:
        scenario.verify(Remains(work, said.read_text().splitlines(), "done"))

    found = set()
    for act in (run, verify):
        listed = case / act.__name__
        _in_good_child(lambda act=act, listed=listed: list_executed(act, listed), case / "errors")  # type: ignore[misc]
        found |= {Path(name) for name in listed.read_text().splitlines()}
    return found


def _in_good_child(act: Callable[[], object], errors: Path) -> None:
    code = in_child(act, errors)
    assert code == 0, errors.read_text()


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
        if self.scenario.maps or call % REALLY_ENDED == 0 or call > len(places):
            return self.stop_at(case, kind, call)
        at = places[call - 1]
        state = self.disk.killed(at, torn=kind is Kind.TORN)
        return self._check_state(case, state, at, "killed")

    def cut(self, case: Path, model: str, at: int) -> Result:
        """Check what a power cut leaves before some call."""
        state = self.disk.cut(at, model, random.Random(f"{model} {at}"))
        return self._check_state(case, state, at, "cut")

    def _check_state(self, case: Path, state: Snapshot, at: int, ending: Ending) -> Result:
        folder = case / "work" if self.scenario.moves else self.logged.folder
        remains = Remains(folder, self._said_before(at), ending, self.good)
        # There is one folder for those that cannot move, so one of them at a time.
        with FileLock(self.good / "place") if folder == self.logged.folder else nullcontext():
            if folder.exists():
                shutil.rmtree(folder)
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
        code = in_child(lambda: _verify(self.scenario, remains), errors)
        if code == 0:
            mark.touch()
            return Result(reached)
        what = "hangs" if code == -signal.SIGALRM else f"after it {remains.ending}"
        return Result(reached, f"{what}: {_last_lines(errors)}")


def _run(scenario: Scenario, work: Path, log: Path, kind: Kind, call: int) -> None:
    _make_repeatable(0)
    library.arm(work, log, kind, call)
    scenario.run(work, library.note)


def _verify(scenario: Scenario, remains: Remains) -> None:
    _make_repeatable(2)
    vars(manifest_state)["_PATIENCE_S"] = 0  # No writer is alive.
    scenario.verify(remains)


def _make_repeatable(seed: int) -> None:
    """Let this process choose the names that another of the same seed does, and live at the same time.

    So runs that do the same leave equal states, and each state is checked once.
    """
    chance = random.Random(seed)
    vars(uuid)["uuid4"] = lambda: uuid.UUID(int=chance.getrandbits(128), version=4)
    vars(store)["datetime"] = _SameTime


class _SameTime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> _SameTime:
        return cls(2026, 1, 1, tzinfo=tz)


def _last_lines(errors: Path) -> str:
    lines = errors.read_text(errors="replace").strip().splitlines() if errors.exists() else []
    return " | ".join(line.strip() for line in lines[-1:])[:400]
