"""What all commands that edit have in common: show the plan, ask, carry it out, say what was done."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roboreel.check.words import counted
from roboreel.cli.arguments import DryRunOption, JsonOption, YesOption
from roboreel.cli.carrying_out import (
    AddressOption,
    JobOption,
    OnName,
    OnOption,
    ShardsOption,
    Where,
    WorkersOption,
)
from roboreel.cli.confirm import confirm
from roboreel.cli.console import ProgressReport, print_json, print_line
from roboreel.edit.edit_job import plan_edit_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from roboreel.edit import Edit, EditPlan

__all__ = ["WHERE", "EditOptions", "apply_plan", "carry_out", "edits", "with_options"]

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
WHERE: dict[str, Any] = {
    "workers": WorkersOption,
    "on": OnOption,
    "address": AddressOption,
    "shards": ShardsOption,
    "job": JobOption,
}
"""Where the files are made."""
OPTIONS: dict[str, Any] = {
    "out": OutOption,
    "link": LinkOption,
    "scrub": ScrubOption,
    "reencode": ReencodeOption,
    **WHERE,
    "yes": YesOption,
    "dry_run": DryRunOption,
    "as_json": JsonOption,
}


@dataclass(frozen=True, slots=True)
class EditOptions:
    """How an edit is carried out."""

    out: Path | None = None
    link: bool = False
    scrub: bool = False
    reencode: bool = False
    workers: int | None = None
    on: OnName = OnName.LOCAL
    address: str | None = None
    shards: int = 64
    job: Path | None = None
    yes: bool = False
    dry_run: bool = False
    as_json: bool = False

    @property
    def where(self) -> Where:
        """Where the files are made."""
        return Where(self.workers, self.on, self.address, self.shards, self.job)


def edits(make: Callable[..., Edit]) -> Callable[..., None]:
    """Return a command that takes the options of all edits beside its own.

    Args:
        make: Takes the command's own arguments, and returns what to do.
    """

    def run(options: EditOptions, **given: Any) -> None:  # noqa: ANN401  # as typer parsed them
        edit = make(**given)
        edit = edit.scrub() if options.scrub and not edit.recipe.scrub else edit
        edit = edit.allow_reencoding() if options.reencode else edit
        carry_out(edit.plan(options.out, link=options.link), options)

    # `edit scrub` and `edit reencode` are what the options of these names ask for.
    options = {name: kind for name, kind in OPTIONS.items() if name != make.__name__}
    return with_options(make, run, options)


def with_options(
    make: Callable[..., Any], run: Callable[..., None], options: dict[str, Any]
) -> Callable[..., None]:
    """Return a command with the parameters of a function and further options.

    Args:
        make: Whose parameters, name and help the command has.
        run: Called with the options as `EditOptions`, and with what the parameters hold.
        options: Types of the options, by name.
    """

    def command(**given: Any) -> None:  # noqa: ANN401  # as typer parsed them
        asked = EditOptions(**{name: given.pop(name) for name in options})
        run(asked, **given)

    hints = inspect.get_annotations(make, eval_str=True)
    own = [
        one.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, one in inspect.signature(make).parameters.items()
    ]
    default = {one.name: one.default for one in fields(EditOptions)}
    more = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default[name], annotation=kind
        )
        for name, kind in options.items()
    ]
    command.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in (*own, *more)}
    command.__name__, command.__doc__ = make.__name__, make.__doc__
    return command


def carry_out(plan: EditPlan, options: EditOptions, *, verify: bool = False) -> None:
    """Print a plan, ask, and apply it.

    Args:
        plan: What to do.
        options: How.
        verify: Whether to compare every row and packet of a new dataset with the old ones.
    """
    done = False
    if not plan and plan.out is None:
        if not options.as_json:
            print_line("There is nothing to change.")
    elif confirm(plan.lines(), yes=options.yes, dry_run=options.dry_run, as_json=options.as_json):
        apply_plan(plan, options.where, verify=verify)
        done = True
        if verify and not options.as_json:
            print_line("Every row and every packet is the same.")
    if options.as_json:
        print_json({**plan.to_json(), "done": done, "dry_run": options.dry_run})
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
    if where.on is OnName.SLURM:
        plan.check_place()
        planned = plan_edit_job(plan, verify=verify)
        where.write_array(planned, plan.job_name, plan.job_folder(planned))
    with ProgressReport() as progress:
        plan.apply(on=where.executor(), job=where.job, verify=verify, on_progress=progress.show)
