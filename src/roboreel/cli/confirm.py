"""The rule of every command that changes a dataset: it shows its plan, and asks."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from roboreel.cli.console import print_error

__all__ = ["YesOption", "confirm"]

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, *, yes: bool, dry_run: bool) -> bool:
    """Return whether to go on: with ``--yes``, or if whoever is asked says so."""
    if dry_run or yes:
        return not dry_run
    if not sys.stdin.isatty():
        print_error("This changes the dataset, and nobody can be asked: use --yes or --dry-run.")
        raise typer.Exit(2)
    return typer.confirm(question)
