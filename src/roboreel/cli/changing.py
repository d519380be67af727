"""What all commands that edit have in common: show the plan, ask, carry it out, say what was done."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roboreel.check.words import counted
from roboreel.cli.arguments import DryRunOption, JsonOption, YesOption
from roboreel.cli.confirm import confirm
from roboreel.cli.console import ProgressReport, print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from roboreel.edit import Edit, EditPlan

__all__ = ["EditOptions", "carry_out", "edits", "with_options"]

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
OPTIONS: dict[str, Any] = {
    "out": OutOption,
    "link": LinkOption,
    "scrub": ScrubOption,
    "reencode": ReencodeOption,
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
    yes: bool = False
    dry_run: bool = False
    as_json: bool = False


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
    default = {"out": None}
    more = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default.get(name, False), annotation=kind
        )
        for name, kind in options.items()
    ]
    command.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in (*own, *more)}
    command.__name__, command.__doc__ = make.__name__, make.__doc__
    return command


def carry_out(
    plan: EditPlan, options: EditOptions, after: Callable[[EditPlan], str] | None = None
) -> None:
    """Print a plan, ask, and apply it.

    Args:
        plan: What to do.
        options: How.
        after: Called once it is done; returns what to say of it.
    """
    done = False
    if not plan and plan.out is None:
        if not options.as_json:
            print_line("There is nothing to change.")
    elif confirm(plan.lines(), yes=options.yes, dry_run=options.dry_run, as_json=options.as_json):
        with ProgressReport() as progress:
            plan.apply(on_progress=progress.show)
        done = True
        said = "" if after is None else after(plan)
        if said and not options.as_json:
            print_line(said)
    if options.as_json:
        print_json({**plan.to_json(), "done": done, "dry_run": options.dry_run})
    elif done and plan.out is not None:
        print_line(f"Written: {counted(plan.num_episodes, 'episode')} to {plan.out}.")
    elif done:
        print_line(
            f"Done: {counted(plan.num_episodes, 'episode')}, {counted(plan.num_frames, 'frame')}."
        )
