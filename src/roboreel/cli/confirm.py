"""The one rule of every command that changes a dataset: print the plan, ask, then act."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from roboreel.cli.arguments import DryRunOption, JsonOption, YesOption
from roboreel.cli.console import errors, literal, output, print_error

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Asking:
    """Whether to ask, to act, and to print JSON: a group of options."""

    yes: YesOption = False
    dry_run: DryRunOption = False
    as_json: JsonOption = False


def confirm(plan: Iterable[str], asking: Asking) -> bool:
    """Print a plan and return whether to carry it out.

    Args:
        plan: What would be done, in lines.
        asking: Whether to ask. With JSON, stdout is for that: the plan is then printed to stderr,
            if there is a question to answer.

    Raises:
        typer.Exit: With code 2, if nobody can be asked.
    """
    asks = not asking.yes and not asking.dry_run
    if not asking.as_json or asks:
        for line in plan:
            (errors if asking.as_json else output).print(literal(line), soft_wrap=True)
    if not asks:
        return not asking.dry_run
    if not _is_terminal():
        print_error("Nothing was changed: there is no terminal to ask. Run it again with --yes.")
        raise typer.Exit(2)
    if typer.confirm("Go on?", err=True):
        return True
    errors.print("Nothing was changed.")
    return False


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
