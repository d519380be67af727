"""Jobs: a plan is done once, and its result is whole, wherever a run was stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.files import write_atomically
from roboreel.jobs import InProcess, Operation, Plan, execute
from tests.faults.scenario import Remains, Scenario, check_no_litter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.jobs import Part, Task
    from tests.faults.scenario import Say

__all__ = ["OPERATION", "SCENARIOS"]

RESULT = "ROBOREEL_FAULTS_RESULT"
"""Where the result goes: a plan names no folder, since a state is checked in another one."""


def square(task: Task, folder: Path) -> dict[str, Any]:
    number = task.inputs["number"]
    (folder / "square.txt").write_text(f"{number * number}\n")
    return {"square": number * number}


def join(_: Plan, parts: Iterator[Part]) -> dict[str, Any]:
    lines = [(part.folder / "square.txt").read_text() for part in parts]
    write_atomically(Path(os.environ[RESULT]), "".join(lines))
    return {"count": len(lines)}


OPERATION = Operation(run=square, commit=join)


def work(folder: Path, say: Say) -> None:
    os.environ[RESULT] = str(folder / "result.txt")
    numbers = {"number": np.arange(3)}
    plan = Plan("tests.faults.working:OPERATION", {}, numbers, np.full(3, 0.01))
    assert execute(plan, on=InProcess(), folder=folder / "job") == {"count": 3}
    say("done")


def verify(remains: Remains) -> None:
    result = remains.folder / "result.txt"
    if result.exists() or "done" in remains.said:
        assert result.read_text() == "0\n1\n4\n"
    work(remains.folder, lambda _: None)
    assert result.read_text() == "0\n1\n4\n"
    assert not (remains.folder / "job").exists()
    check_no_litter(remains.folder)


SCENARIOS = [Scenario("job", work, verify, modules=("tests.faults.working",))]
