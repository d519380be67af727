"""Changes carried out: in place as one commit, or on a copy that appears whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.commit import Commit, Workshop, finish_commit, locked
from roboreel.errors import RecordingError
from roboreel.files import atomic_folder, copy_file, sync_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roboreel.repair.changes import Change
    from roboreel.repair.state import State

__all__ = ["apply_changes", "copy_with_changes"]


def apply_changes(root: Path, changes: Sequence[Change], state: State) -> None:
    """Change a dataset in place, entirely or not at all."""
    workshop = Workshop(root)
    with locked(workshop):
        if finish_commit(workshop):
            state.check(root)
        commit = Commit(workshop)
        for change in changes:
            _stage(change, root, commit)
        commit.run()


def _stage(change: Change, root: Path, commit: Commit) -> None:
    if change.kind == "aside":
        commit.remove(change.file)
    elif change.source is not None:
        copy_file(root / change.source, commit.add(change.file))
        commit.remove(change.source)
    elif change.write is not None:
        change.write(root, commit.add(change.file))


def copy_with_changes(root: Path, out: Path, changes: Sequence[Change]) -> None:
    """Write a repaired copy of a dataset to a new folder, which appears whole.

    What begins with a dot is not part of the dataset, and is not copied.

    Raises:
        RecordingError: The folder exists and is not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RecordingError(f"{str(out)!r} already exists: choose a new folder.")
    by_source = {change.source or change.file: change for change in changes}
    with atomic_folder(out) as folder:
        for path in sorted(root.rglob("*")):
            file = path.relative_to(root)
            if path.is_file() and not any(part.startswith(".") for part in file.parts):
                change = by_source.get(file.as_posix())
                if change is None:
                    _place(path, folder / file)
                elif change.source is not None:
                    _place(path, folder / change.file)
        for change in changes:
            if change.write is not None:
                target = folder / change.file
                target.parent.mkdir(parents=True, exist_ok=True)
                change.write(root, target)
                sync_file(target)


def _place(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    copy_file(path, target)
    sync_file(target)
