"""The steps of a decided commit: listed on disk, and carried out from any point."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.files import sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roboreel.commit.workshop import Workshop

__all__ = ["Step", "drop_commit", "finish_commit", "has_commit", "in_parallel", "write_steps"]

_STEPS = "steps.json"


@dataclass(frozen=True, slots=True)
class Step:
    """One file appears, replaces another, or leaves."""

    staged: str | None
    """Name of the prepared file; None if the target leaves."""
    target: str
    """Path below the folder that changes, with slashes."""


def write_steps(folder: Path, steps: Sequence[Step]) -> Path:
    """Write the list of steps beside the prepared files, and return its path; nothing is synced."""
    path = folder / _STEPS
    path.write_text(json.dumps([(step.staged, step.target) for step in steps]), encoding="utf-8")
    return path


def finish_commit(workshop: Workshop) -> bool:
    """Carry out what was decided and not done; return whether there was anything.

    Raises:
        CorruptFileError: The list of steps is not one, or names files that may not change.
    """
    folder = workshop.decided
    if not folder.is_dir():
        return False
    steps = folder / _STEPS
    if steps.exists():
        _carry_out(workshop, _read_steps(steps, workshop))
        # Before the rest of the folder: without the list there is nothing to do again.
        steps.unlink()
    shutil.rmtree(folder)
    return True


def drop_commit(workshop: Workshop) -> None:
    """Forget what was decided, where there is no dataset that it could belong to."""
    shutil.rmtree(workshop.decided, ignore_errors=True)


def has_commit(workshop: Workshop) -> bool:
    """Whether something was decided and not finished."""
    return (workshop.decided / _STEPS).exists()


def _carry_out(workshop: Workshop, steps: Iterable[Step]) -> None:
    touched: set[Path] = set()
    removing = False
    for step in steps:
        leaves = step.staged is None
        if step.target.startswith(f"{workshop.index}/") or removing != leaves:
            # The index describes files whose names must be on the disk before it is. What it no
            # longer describes leaves only once the new index is on the disk.
            in_parallel(sync_directory, touched)
            touched.clear()
        removing = leaves
        _do(step, workshop)
        touched.add((workshop.root / step.target).parent)
    in_parallel(sync_directory, [parent for parent in touched if parent.exists()])


def _do(step: Step, workshop: Workshop) -> None:
    """Do one step; nothing happens if that is done already.

    Only here does an old file go: a commit that can be undone would move it aside instead.
    """
    target = workshop.root / step.target
    if step.staged is None:
        target.unlink(missing_ok=True)
        return
    prepared = workshop.decided / step.staged
    if prepared.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        prepared.replace(target)


def _read_steps(path: Path, workshop: Workshop) -> list[Step]:
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        steps = [Step(name, str(target)) for name, target in listed]
    except (ValueError, TypeError) as error:
        raise CorruptFileError(f"Not a list of steps: {str(path)!r}.") from error
    for step in steps:
        # A dataset may come from anywhere: nothing in it may reach beyond its folder.
        named = step.staged is None or Path(str(step.staged)).name == step.staged
        if not named or not workshop.allows(step.target):
            raise CorruptFileError(
                f"A step leads out of the dataset, to {step.target!r}: {str(path)!r}."
            )
    return steps


def in_parallel(work: Callable[[Path], None], paths: Iterable[Path]) -> None:
    """Do the same to all paths at once: a disk syncs many files in little more time than one."""
    several = list(paths)
    if len(several) < 2:
        for path in several:
            work(path)
        return
    with ThreadPoolExecutor(min(8, len(several))) as pool:
        list(pool.map(work, several))
