"""What all commands that edit have in common: show the plan, ask, carry it out, say what was done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roboreel.cli.carrying_out import Where
from roboreel.cli.confirm import Asking, confirm
from roboreel.cli.console import ProgressReport, print_json, print_line
from roboreel.cli.groups import grouped_as, parameters_of
from roboreel.edit.edit_job import plan_edit_job
from roboreel.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from roboreel.edit import Edit, EditPlan

OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write a new dataset here; this one is not changed."),
]
LinkOption = Annotated[
    bool,
    typer.Option("--link", help="With --out: hard-link unchanged files instead of copying them."),
]
ScrubOption = Annotated[
    bool,
    typer.Option("--scrub", help="Erase what is removed for good: no undo."),
]
ReencodeOption = Annotated[
    bool,
    typer.Option("--reencode", help="Re-encode clips that cannot be cut without loss."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOptions:
    """How an edit is carried out: the options of all edits."""

    out: OutOption = None
    link: LinkOption = False
    scrub: ScrubOption = False
    reencode: ReencodeOption = False
    place: Where
    asking: Asking


def edits(make: Callable[..., Edit]) -> Callable[..., None]:
    """Return a command that takes the options of all edits beside its own.

    Args:
        make: Takes the command's own arguments, and returns what to do.
    """

    def run(**given: Any) -> None:  # noqa: ANN401  # as typer parsed them
        options = EditOptions(**{one.name: given.pop(one.name) for one in shared})
        edit = make(**given)
        edit = edit.scrub() if options.scrub and not edit.recipe.scrub else edit
        edit = edit.allow_reencoding() if options.reencode else edit
        plan = edit.plan(options.out, link=options.link)
        carry_out(plan, options.place, options.asking)

    # `edit scrub` and `edit reencode` are what the options of these names ask for.
    shared = [one for one in parameters_of(EditOptions) if one.name != make.__name__]
    return grouped_as(make, run, [*parameters_of(make), *shared])


def carry_out(plan: EditPlan, where: Where, asking: Asking, *, verify: bool = False) -> None:
    """Print a plan, ask, and apply it.

    Args:
        plan: What to do.
        where: Where its files are made.
        asking: Whether to ask first.
        verify: Whether to compare every row and packet of a new dataset with the old ones.
    """
    done = False
    if not plan and plan.out is None:
        if not asking.as_json:
            print_line("There is nothing to change.")
    elif confirm(plan.lines(), asking):
        apply_plan(plan, where, verify=verify)
        done = True
        if verify and not asking.as_json:
            print_line("Every row and every packet is the same.")
    if asking.as_json:
        print_json({**plan.to_json(), "done": done, "dry_run": asking.dry_run})
    elif done and plan.out is not None:
        print_line(f"Written: {counted(plan.num_episodes, 'episode')} to {plan.out}.")
    elif done:
        print_line(
            f"Done: {counted(plan.num_episodes, 'episode')}, {counted(plan.num_frames, 'frame')}."
        )


def apply_plan(plan: EditPlan, where: Where, *, verify: bool = False) -> None:
    """Apply a plan, here or wherever the options say.

    Raises:
        typer.Exit: With --on slurm: the script is written, and the rest is up to Slurm.
    """
    if where.on == "slurm":
        plan.check_place()
        planned = plan_edit_job(plan, verify=verify)
        where.write_array(planned, plan.job_name, plan.job_folder(planned))
    with ProgressReport() as progress:
        plan.apply(on=where.executor(), job=where.job, verify=verify, on_progress=progress.show)
