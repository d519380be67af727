"""The steps of a decided commit, as a list on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roboreel.commit.workshop import Workshop

STEPS = "steps.json"


class UnreadableStepsError(CorruptFileError):
    """The list of steps is damaged, so what was decided is not known."""


@dataclass(frozen=True, slots=True)
class Step:
    """One file appears, replaces another, moves, or leaves. Paths are below the folder that changes."""

    target: str
    """Where the file appears, or which one leaves."""
    staged: str | None = None
    """Name of the prepared file that appears."""
    source: str | None = None
    """Path of the file that moves."""
    keep: bool = False
    """Whether the old file at the target is kept, so that the change can be undone."""

    @property
    def leaves(self) -> bool:
        """Whether the target leaves."""
        return self.staged is None and self.source is None


@dataclass(frozen=True, slots=True)
class Decision:
    """All that a commit does, once it is decided."""

    steps: Sequence[Step]
    number: int | None = None
    """Number of the change that keeps old files; None if it keeps none."""
    purge: bool = False
    """Whether all old files that were ever kept are deleted."""
    change: str | None = None
    """What changes, for readers, who wait until it is done; None if files only come or are joined."""
    time: str | None = None
    """When it was decided, in UTC."""


def write_decision(folder: Path, decision: Decision) -> Path:
    """Write the list of steps beside the prepared files, and return its path; nothing is synced."""
    path = folder / STEPS
    listed = {
        "change": decision.change,
        "time": decision.time,
        "steps": [[step.staged, step.target, step.source, step.keep] for step in decision.steps],
        "number": decision.number,
        "purge": decision.purge,
    }
    path.write_text(json.dumps(listed), encoding="utf-8")
    return path


def read_decision(workshop: Workshop) -> Decision:
    """Return what was decided.

    Raises:
        UnreadableStepsError: The list cannot be read.
        CorruptFileError: A step leads out of the dataset.
    """
    path = workshop.decided / STEPS
    try:
        decision = _parse(json.loads(read_file(path, "list of steps")))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnreadableStepsError(
            "A change was interrupted, and its list of steps cannot be read, so it cannot be "
            "finished. Run `roboreel recover`, which sets it aside, then `roboreel check`; or move "
            f"the folder of the list away: {str(path)!r}."
        ) from error
    for step in decision.steps:
        # A dataset may come from anywhere: nothing in it may reach beyond its folder.
        if not is_allowed(step, workshop):
            raise CorruptFileError(
                f"A step of an interrupted change leads out of the dataset, to {step.target!r}, so "
                "none was carried out. If the dataset came from elsewhere, do not trust it; remove "
                f"the folder of the list to use it all the same: {str(path)!r}."
            )
    return decision


def _parse(listed: Any) -> Decision:  # noqa: ANN401  # JSON
    if isinstance(listed, list):  # until 0.1
        return Decision([Step(_text(target), _name(staged)) for staged, target in listed])
    steps = [
        Step(_text(target), _name(staged), _name(source), keep is True)
        for staged, target, source, keep in listed["steps"]
    ]
    number = listed["number"]
    if number is not None and (type(number) is not int or not 0 < number < 10**9):
        raise ValueError(number)
    if any(step.keep for step in steps) and number is None:
        raise ValueError(listed)
    return Decision(steps, number, listed["purge"] is True)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _name(value: object) -> str | None:
    return None if value is None else _text(value)


def is_allowed(step: Step, workshop: Workshop) -> bool:
    """Whether a step touches files of a dataset's shapes alone, and the undo store."""
    if step.source is not None:
        ends = (step.source, step.target)
        return step.staged is None and all(
            workshop.allows_move(end) or workshop.allows_store(end) for end in ends
        )
    named = step.staged is None or (
        Path(step.staged).name == step.staged != STEPS and step.staged.isprintable()
    )
    return named and (
        workshop.allows(step.target) or (workshop.is_change(step.target) and not step.keep)
    )
