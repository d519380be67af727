"""roboreel undo: the dataset as it was before the newest change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.cli.arguments import FolderArgument
from roboreel.cli.confirm import Asking, confirm
from roboreel.cli.console import print_json, print_line
from roboreel.cli.groups import grouped
from roboreel.commit import (
    Workshop,
    check_undoable,
    file_lines,
    has_commit,
    newest_change,
    undo_change,
)
from roboreel.format.hub import writable_folder

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.commit import PastChange


@grouped
def undo(path: FolderArgument, asking: Asking) -> None:
    """Undo the newest change: the old files return.

    Every file is again what it was, byte by byte. It is refused if the dataset has changed since.
    """
    folder = writable_folder(path)
    change = newest_change(folder)
    if not has_commit(Workshop(folder)):  # which would be finished first
        check_undoable(folder, change)
    done = confirm(_plan(folder, change), asking)
    if done:
        change = undo_change(folder)
    if asking.as_json:
        print_json(_facts(change, done=done))
    elif done:
        print_line(f"Undone: {change.command} of {change.time}.")


def _plan(path: Path, change: PastChange) -> list[str]:
    first = f"Change {change.number}, {change.command} of {change.time}: {change.summary}"
    lines = [first, *file_lines(change.undoing)]
    if has_commit(Workshop(path)):
        lines.append("A change was interrupted; it is finished first, and may be the one to undo.")
    return lines


def _facts(change: PastChange, *, done: bool) -> dict[str, Any]:
    return {
        "number": change.number,
        "command": change.command,
        "summary": change.summary,
        "time": change.time,
        "returned": [file.path for file in change.files if file.before is not None],
        "removed": [f.path for f in change.files if f.before is None and f.moved_from is None],
        "moved_back": {f.path: f.moved_from for f in change.files if f.moved_from is not None},
        "files": [one.to_json() for one in change.undoing],
        "done": done,
    }
