"""What a job does with its tasks: a function that runs one, and a function that joins all parts."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roboreel.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from roboreel.jobs.plan import Plan, Task


@dataclass(frozen=True, slots=True)
class Part:
    """What one task has left: a folder of files, and a summary."""

    task: Task
    folder: Path
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """How tasks are carried out, and what becomes of their parts. A module holds it as a constant."""

    run: Callable[[Task, Path], Mapping[str, Any]]
    """Does one task. It writes files to an empty folder, the same ones whenever and wherever it runs,
    and returns a small summary of plain values. Nothing else may change."""
    commit: Callable[[Plan, Iterator[Part]], Any]
    """Joins all parts, in the order of the plan, and publishes the result atomically. It may run
    again after a crash, so it must end the same way if all or some of it has been done. It may move
    files out of the parts, and returns plain values."""


def load_operation(name: str) -> Operation:
    """Return the operation at ``"package.module:NAME"``.

    Raises:
        JobError: There is none.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise JobError(
            f"The job's operation {name!r} cannot be imported ({error}). Use the version of roboreel "
            "that made the job."
        ) from error
    if not isinstance(found, Operation):
        raise JobError(f"{name!r} is not a job's operation.")
    return found
