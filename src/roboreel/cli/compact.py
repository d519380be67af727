"""roboreel compact: fewer and larger files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer
from rich.markup import escape

from roboreel.cli.console import output
from roboreel.record.compact import Compaction, compact_dataset

__all__ = ["compact"]


def compact(
    path: Path = typer.Argument(..., help="The dataset's folder."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Say what would be done, and do nothing."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Join small files up to the sizes that info.json names, without encoding anything again."""
    plan = compact_dataset(path, dry_run=dry_run)
    if as_json:
        print(json.dumps({**asdict(plan), "dry_run": dry_run}, indent=2))
        return
    for line in _sentences(plan, dry_run=dry_run):
        output.print(escape(line), soft_wrap=True)


def _sentences(plan: Compaction, *, dry_run: bool) -> list[str]:
    if not plan:
        return ["There are no small files to join."]
    groups = [*plan.data, *(group for several in plan.videos.values() for group in several)]
    if len(plan.episodes) > 1:
        groups.append(plan.episodes)
    lines = [f"{len(group)} files become {group[0]}" for group in groups if len(group) > 1]
    verb = "would go" if dry_run else "are gone"
    return [*lines, f"{plan.num_removed} files {verb}."]
