"""roboreel compact: fewer and larger files."""

from __future__ import annotations

from dataclasses import asdict

from roboreel.cli.arguments import DryRunOption, FolderArgument, JsonOption
from roboreel.cli.console import print_json, print_line
from roboreel.record.compact import Compaction, compact_dataset


def compact(
    path: FolderArgument, dry_run: DryRunOption = False, as_json: JsonOption = False
) -> None:
    """Join small files into larger ones. Nothing is encoded again."""
    plan = compact_dataset(path, dry_run=dry_run)
    if as_json:
        print_json({**asdict(plan), "dry_run": dry_run})
        return
    for line in _sentences(plan, dry_run=dry_run):
        print_line(line)


def _sentences(plan: Compaction, *, dry_run: bool) -> list[str]:
    if not plan:
        return ["There are no small files to join."]
    groups = [*plan.data, *(group for several in plan.videos.values() for group in several)]
    if len(plan.episodes) > 1:
        groups.append(plan.episodes)
    lines = [f"{len(group)} files become {group[0]}" for group in groups if len(group) > 1]
    verb = "would go" if dry_run else "are gone"
    return [*lines, f"{plan.num_removed} files {verb}."]
