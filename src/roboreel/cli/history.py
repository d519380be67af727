"""roboreel history: the changes that can be undone, and the space that their old files take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roboreel.cli.arguments import FolderArgument
from roboreel.cli.confirm import Asking, confirm
from roboreel.cli.console import literal, output, print_json, print_line, text_table
from roboreel.cli.groups import grouped
from roboreel.commit import check_undoable, list_changes, purge_changes
from roboreel.errors import CorruptFileError, UndoError
from roboreel.format.hub import writable_folder

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.commit import PastChange


@grouped
def history(
    path: FolderArgument,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete the old files: those changes become final.")
    ] = False,
    keep: Annotated[
        int, typer.Option(min=0, metavar="N", help="With --purge: keep the newest N changes.")
    ] = 0,
    asking: Asking = Asking(),
) -> None:
    """List the changes that can be undone, or purge them.

    The newest comes first. The old files that they keep take space; --purge deletes them.
    """
    folder = writable_folder(path)
    if purge:
        _purge(folder, keep, asking)
        return
    if keep or asking.yes or asking.dry_run:
        raise typer.BadParameter("--keep, --yes and --dry-run go with --purge.")
    changes = list_changes(folder)
    obstacle = _obstacle(folder, changes)
    if asking.as_json:
        print_json({**_facts(changes), "undoable": bool(changes) and obstacle is None})
        return
    _print_table(changes)
    if changes:
        print_line(obstacle or f"Undo the newest with `roboreel undo {path}`.")


def _purge(path: Path, keep: int, asking: Asking) -> None:
    try:
        changes = list_changes(path)[keep:]
    except CorruptFileError as error:  # purging is the remedy
        changes = []
        plan = [str(error)]
    else:
        plan = [_line(change) for change in changes]
        plan.append(f"{_size(changes)} of old files go; these changes can no longer be undone.")
    done = confirm(plan, asking)
    purged = purge_changes(path, keep=keep) if done else []
    if asking.as_json:
        print_json({**_facts(changes), "purged": purged, "dry_run": asking.dry_run})
    elif done:
        print_line(f"{len(purged)} changes are final now.")


def _print_table(changes: list[PastChange]) -> None:
    if not changes:
        print_line("There is no change that can be undone.")
        return
    table = text_table("change", "time", "command", "summary", "files", "kept")
    for change in changes:
        words = (change.time, change.command, change.summary)
        table.add_row(
            str(change.number), *map(literal, words), str(len(change.files)), _size([change])
        )
    output.print(table)
    print_line(f"{_size(changes)} of old files are kept.")


def _obstacle(path: Path, changes: list[PastChange]) -> str | None:
    """Return why the newest change cannot be undone; None if it can."""
    try:
        if changes:
            check_undoable(path, changes[0])
    except UndoError as error:
        return str(error)
    return None


def _line(change: PastChange) -> str:
    return f"Change {change.number}, {change.command} of {change.time}: {change.summary}"


def _size(changes: list[PastChange]) -> str:
    return f"{sum(change.kept_bytes for change in changes) / 1e6:,.2f} MB"


def _facts(changes: list[PastChange]) -> dict[str, Any]:
    listed = [
        {
            "number": change.number,
            "command": change.command,
            "summary": change.summary,
            "time": change.time,
            "roboreel": change.roboreel,
            "files": [file.path for file in change.files],
            "kept_bytes": change.kept_bytes,
        }
        for change in changes
    ]
    return {"changes": listed, "kept_bytes": sum(change.kept_bytes for change in changes)}
