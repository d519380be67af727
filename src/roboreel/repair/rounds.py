"""A whole repair: planned and applied until nothing more can be repaired."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.commit import check_free
from roboreel.edit.recipe import Recipe, whole_episodes
from roboreel.format import read_manifest
from roboreel.format.hub import dataset_folder
from roboreel.repair.plan import copied
from roboreel.repair.planning import plan_repair
from roboreel.repair.unlisted import check_recovery

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from roboreel.findings import Finding
    from roboreel.repair.plan import RepairPlan

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
    recover: str | os.PathLike[str] | None = None,
    agree: Callable[[RepairPlan], bool] = lambda _: True,
    **selection: Any,  # noqa: ANN401  # as plan_repair takes them
) -> Repaired:
    """Repair a dataset, or a copy of it, and check it again.

    Each plan is a change of its own, which `roboreel undo` takes back.

    Args:
        path: The dataset's folder.
        out: A new folder for a repaired copy, which appears whole. By default the dataset itself is
            repaired.
        drop: Numbers of episodes that leave the dataset, as by `Edit.delete`, once all else is
            repaired. Those behind them get lower numbers.
        recover: A new folder for a dataset of the episodes that data files hold, but the episode table
            does not list. It is written before anything changes.
        agree: Takes each plan before it is applied, and returns whether to go on.
        **selection: What to repair: see `plan_repair`.

    Raises:
        NotADatasetError: There is no dataset at this path.
        EpisodeNotFoundError: A number that no episode has.
        EditError: Episodes cannot leave: none would stay, or what stays cannot be read.
        DatasetInUseError: Another process changes the dataset.
        RecordingError: ``out`` or ``recover`` exists and is not empty.
    """
    if drop:
        table = read_manifest(dataset_folder(path)).episodes
        Recipe(whole_episodes(table.length)).without(table.positions_of(drop).tolist())
    copy = None if out is None else Path(out).expanduser()
    rescue = None if recover is None else Path(recover).expanduser()
    if rescue is not None:
        check_free(rescue)
        check_recovery(dataset_folder(path), rescue, copy)
    work = _Work(tuple(drop), copy, selection, rescue)
    first = work.plan(path)
    if work.out is None or not first:
        return work.carry_out(first, agree)
    if not agree(first):
        return Repaired((), first)
    with copied(first, work.out) as plan:
        plan.apply()
        left = work.after(first)
        rest = left.carry_out(left.plan(plan.root), agree)
    return Repaired((first, *rest.plans), rest.last)


@dataclass(frozen=True, slots=True)
class _Work:
    """What is left to do."""

    drop: tuple[int, ...]
    out: Path | None
    selection: Mapping[str, Any]
    recover: Path | None = None
    """Where unlisted episodes go that have not been recovered yet."""
    done: tuple[RepairPlan, ...] = ()
    """Since episodes got other numbers, if they did."""

    def plan(self, path: str | os.PathLike[str]) -> RepairPlan:
        """Return what comes next: a repair, or the edit by which episodes leave."""
        plan = plan_repair(path, **self.selection)
        plan = replace(plan, recovery=self.recover if plan.unlisted else None)
        if self.drop and not self._helps(plan):
            return plan.dropping(self.drop, self.out)
        return replace(plan, leaving=self.drop)

    def carry_out(self, plan: RepairPlan, agree: Callable[[RepairPlan], bool]) -> Repaired:
        """Carry out a plan and those after it."""
        if not self._helps(plan) or not agree(plan):
            return Repaired((), plan)
        plan.apply()
        left = self.after(plan)
        rest = left.carry_out(left.plan(plan.root), agree)
        return Repaired((plan, *rest.plans), rest.last)

    def after(self, plan: RepairPlan) -> _Work:
        """Return what is left to do after a plan."""
        if plan.edit is None:
            recover = self.recover if plan.recovery is None else None
            return replace(self, recover=recover, done=(*self.done, plan))
        looked_at = self.selection.get("episodes")
        if looked_at is None:
            return replace(self, drop=(), done=())
        numbers = plan.edit.context.sources[0].manifest.episodes.number.tolist()
        kept = [number for number in numbers if number not in self.drop]
        episodes = [new for new, number in enumerate(kept) if number in looked_at]
        return replace(self, drop=(), done=(), selection={**self.selection, "episodes": episodes})

    def _helps(self, plan: RepairPlan) -> bool:
        """Whether a plan does something that was not done before: otherwise it does not help."""
        if plan.edit is not None or plan.recovery is not None or not plan:
            return bool(plan)
        before = {_place(one) for past in self.done for one in past.cured}
        is_new = not before or any(_place(one) not in before for one in plan.cured)
        return is_new and len(self.done) < _MOST_ROUNDS


def _place(found: Finding) -> tuple[object, ...]:
    return found.code, found.file, found.episode, found.feature
