"""roboreel compact: fewer and larger files."""

from __future__ import annotations

from roboreel.cli.arguments import DryRunOption, FolderArgument, JsonOption
from roboreel.cli.console import print_json, print_line
from roboreel.record.compact import compact_dataset


def compact(
    path: FolderArgument, dry_run: DryRunOption = False, as_json: JsonOption = False
) -> None:
    """Join small files into larger ones. Nothing is encoded again."""
    plan = compact_dataset(path, dry_run=dry_run)
    if as_json:
        print_json({**plan.to_json(), "dry_run": dry_run})
        return
    if not plan:
        print_line("There are no small files to join.")
        return
    for line in plan.lines():
        print_line(line)
    print_line(f"{plan.num_removed} files {'would go' if dry_run else 'are gone'}.")
