"""A whole repair: planned and applied until nothing more can be repaired."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.commit import STORE, WORKSHOP
from roboreel.files import atomic_folder, remove_tree
from roboreel.repair.apply import check_new
from roboreel.repair.drop import plan_drop
from roboreel.repair.planning import plan_repair

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from roboreel.findings import Finding
    from roboreel.repair.plan import RepairPlan

__all__ = ["Repaired", "repair_dataset"]

# Files that become readable show what else is wrong with them, and that is repaired next.
_MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did."""

    plans: tuple[RepairPlan, ...]
    """What was applied, one round after another."""
    last: RepairPlan
    """What was not: a plan without changes, or one that was not agreed to."""

    @property
    def cured(self) -> tuple[Finding, ...]:
        """The findings that were repaired."""
        return tuple(one for plan in self.plans for one in plan.cured)

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """What is still wrong."""
        return tuple(self.last.findings)


def repair_dataset(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    drop: Sequence[int] = (),
    agree: Callable[[RepairPlan], bool] = lambda _: True,
    **selection: Any,  # noqa: ANN401  # as plan_repair takes them
) -> Repaired:
    """Repair a dataset, or a copy of it, and check it again.

    Args:
        path: The dataset's folder.
        out: A new folder for a repaired copy, which appears whole. By default the dataset itself is
            repaired.
        drop: Numbers of episodes that leave the dataset first. The others are numbered anew.
        agree: Takes each plan before it is applied, and returns whether to go on.
        **selection: What to repair: see `plan_repair`.

    Raises:
        NotADatasetError: There is no dataset at this path.
        DatasetInUseError: Another process changes the dataset.
        RecordingError: ``out`` exists and is not empty.
    """
    first = plan_drop(path, drop) if drop else plan_repair(path, **selection)
    if out is None or not first:
        return _repair(first, agree, selection)
    if not agree(first):
        return Repaired((), first)
    target = Path(out).expanduser()
    check_new(target)
    with atomic_folder(target) as folder:
        first.apply(folder)
        rest = _repair(plan_repair(folder, **selection), agree, selection)
        # A copy has no history: the old files are in the dataset that it was made from.
        for name in (STORE, WORKSHOP):
            remove_tree(folder / name, ignore_errors=True)
    return Repaired((first, *rest.plans), rest.last)


def _repair(
    plan: RepairPlan, agree: Callable[[RepairPlan], bool], selection: dict[str, Any]
) -> Repaired:
    done: list[RepairPlan] = []
    while plan and len(done) < _MOST_ROUNDS and _is_new(plan, done) and agree(plan):
        plan.apply()
        done.append(plan)
        plan = plan_repair(plan.root, **selection)
    return Repaired(tuple(done), plan)


def _is_new(plan: RepairPlan, done: list[RepairPlan]) -> bool:
    """Whether a plan repairs something that was not repaired before: otherwise it does not help."""
    before = {_place(one) for past in done for one in past.cured}
    return not before or any(_place(one) not in before for one in plan.cured)


def _place(found: Finding) -> tuple[object, ...]:
    return found.code, found.file, found.episode, found.feature
