"""The one rule of every command that changes a dataset: print the plan, ask, then act."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from roboreel.cli.console import errors, literal, output, print_error

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["confirm"]


def confirm(plan: Iterable[str], *, yes: bool, dry_run: bool, as_json: bool = False) -> bool:
    """Print a plan and return whether to carry it out.

    Args:
        plan: What would be done, in lines.
        yes: Whether not to ask.
        dry_run: Whether only to print.
        as_json: Whether stdout is for JSON; the plan is then printed to stderr, if there is a
            question to answer.

    Raises:
        typer.Exit: With code 2, if nobody can be asked.
    """
    asks = not yes and not dry_run
    if not as_json or asks:
        for line in plan:
            (errors if as_json else output).print(literal(line), soft_wrap=True)
    if not asks:
        return not dry_run
    if not _is_terminal():
        print_error("Nothing was changed: there is no terminal to ask. Run it again with --yes.")
        raise typer.Exit(2)
    if typer.confirm("Go on?", err=True):
        return True
    errors.print("Nothing was changed.")
    return False


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
