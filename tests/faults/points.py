"""One point of a scenario: the run that is stopped there, and the check of what it leaves.

Everything that touches files happens in forked children, so that a process that did nothing yet can be
forked thousands of times.
"""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import DatasetError
from tests.faults import library
from tests.faults.library import Kind, Operation, read_log
from tests.faults.powercut import Disk, Snapshot, snapshot
from tests.faults.scenario import Remains, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.library import Call
    from tests.faults.scenario import Ending

__all__ = ["Logged", "Result", "in_child", "log_whole_run", "prepare", "stop_at", "try_cut"]

MOST_CPU_S, MOST_IDLE_S = 60, 40
"""A process that uses more, or sleeps longer without any use, hangs."""
_FAILED, _FOREIGN = 3, 4
"""How a child ends whose writer raised: one of our errors or the system's, or another one."""


@dataclass(frozen=True)
class Result:
    """What became of one point."""

    reached: bool
    """Whether the run made that many calls."""
    problem: str | None = None


@dataclass(frozen=True)
class Logged:
    """A whole run: what was there before, and every call."""

    before: Snapshot
    calls: list[Call]
    folder: Path

    @property
    def num_calls(self) -> int:
        """How many calls could be spoilt; notes are none."""
        return sum(call.operation != Operation.NOTE for call in self.calls)


def in_child(act: Callable[[], object], errors: Path) -> int:
    """Run something in a forked child, and return how it ended: negative for a signal.

    A child that hangs leaves its stacks in ``errors``, and is killed.
    """
    child = os.fork()
    if child == 0:
        code = _FOREIGN
        try:
            handle = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(handle, 2)
            os.dup2(handle, 1)
            faulthandler.register(signal.SIGUSR1, file=2)
            warnings.simplefilter("ignore")
            act()
            code = 0
        except (DatasetError, OSError, KeyboardInterrupt):
            traceback.print_exc()
            code = _FAILED
        except BaseException:  # noqa: BLE001  # the child must end here, whatever happens
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    watch, pause_s = _Watch(child), 0.001
    while not watch.hangs():
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)
    os.kill(child, signal.SIGUSR1)  # It writes its stacks.
    time.sleep(0.5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGALRM


class _Watch:
    """Tells a process that hangs from one that gets no turn on a busy machine."""

    def __init__(self, process: int) -> None:
        self._stat = Path(f"/proc/{process}/stat")
        self._used_s, self._since_s = 0.0, time.monotonic()

    def hangs(self) -> bool:
        """Whether it has used much time, or none for long while it could have."""
        state, used_s = self._look()
        if used_s != self._used_s or state != "S":
            self._used_s, self._since_s = used_s, time.monotonic()
        return used_s > MOST_CPU_S or time.monotonic() - self._since_s > MOST_IDLE_S

    def _look(self) -> tuple[str, float]:
        # After the name, which may hold spaces: state, then 10 fields, user and system time.
        fields = self._stat.read_text().rpartition(")")[2].split()
        return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def prepare(scenario: Scenario, folder: Path) -> None:
    """Make the folder that a scenario starts from."""
    folder.mkdir(parents=True)
    code = in_child(lambda: scenario.prepare(folder), folder.with_suffix(".err"))
    assert code == 0, folder.with_suffix(".err").read_text()


def stop_at(scenario: Scenario, prepared: Path, case: Path, kind: Kind, call: int) -> Result:
    """Spoil one call of a run, and check what is left."""
    work, log, errors = case / "work", case / "log", case / "errors"
    shutil.copytree(prepared, work)
    code = in_child(lambda: _run(scenario, work, log, kind, call), errors)
    calls = list(read_log(log))
    reached = sum(c.operation != Operation.NOTE for c in calls) >= call - 1
    endings: dict[int, Ending] = {0: "done", -signal.SIGKILL: "killed", _FAILED: "failed"}
    if code not in endings:
        what = {-signal.SIGALRM: "hangs", _FOREIGN: "a foreign error"}.get(code, f"ended by {code}")
        return Result(reached, f"{what}: {_last_lines(errors)}")
    said = [c.path for c in calls if c.operation == Operation.NOTE]
    return Result(reached, _check(scenario, Remains(work, said, endings[code]), errors))


def log_whole_run(scenario: Scenario, prepared: Path, case: Path) -> Logged:
    """Run a scenario whole, with a log of all calls."""
    work, log = case / "work", case / "log"
    shutil.copytree(prepared, work)
    before = snapshot(work)
    code = in_child(lambda: _run(scenario, work, log, Kind.NOTHING, 0), case / "errors")
    assert code == 0, (case / "errors").read_text()
    return Logged(before, list(read_log(log)), work)


def try_cut(
    scenario: Scenario, logged: Logged, disk: Disk, case: Path, model: str, at: int
) -> Result:
    """Check what a power cut leaves before some call."""
    disk.cut(at, model, random.Random(f"{model} {at}"), case / "work")
    said = [c.path for c in logged.calls[:at] if c.operation == Operation.NOTE]
    return Result(True, _check(scenario, Remains(case / "work", said, "cut"), case / "errors"))


def _run(scenario: Scenario, work: Path, log: Path, kind: Kind, call: int) -> None:
    library.arm(work, log, kind, call)
    scenario.run(work, library.note)


def _check(scenario: Scenario, remains: Remains, errors: Path) -> str | None:
    code = in_child(lambda: scenario.verify(remains), errors)
    if code == 0:
        return None
    what = "hangs" if code == -signal.SIGALRM else f"after it {remains.ending}"
    return f"{what}: {_last_lines(errors)}"


def _last_lines(errors: Path) -> str:
    lines = errors.read_text(errors="replace").strip().splitlines() if errors.exists() else []
    return " | ".join(line.strip() for line in lines[-1:])[:400]
