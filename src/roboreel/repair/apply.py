"""Changes carried out: in place as one commit, or on a copy that appears whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.commit import STORE, Change, Commit, Workshop, finish_commit, locked
from roboreel.errors import RecordingError
from roboreel.files import atomic_folder, copy_file, make_folder, sync_file, walk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roboreel.io.states import FolderState
    from roboreel.repair.changes import PlannedChange


def apply_changes(
    root: Path, changes: Sequence[PlannedChange], state: FolderState, *, summary: str
) -> None:
    """Change a dataset in place, entirely or not at all. Old files are kept for an undo.

    Args:
        root: The dataset's folder.
        changes: What to do, in this order.
        state: The files that the changes were planned for.
        summary: What is done, in a line.
    """
    workshop = Workshop(root)
    with locked(workshop):
        finish_commit(workshop)
        state.check(root)
        commit = Commit(workshop, change=Change("repair", summary))
        for change in changes:
            _stage(change, root, commit)
        commit.run()


def _stage(change: PlannedChange, root: Path, commit: Commit) -> None:
    if change.kind == "aside":
        commit.move(change.file, _place_aside(root, change.file))
    elif change.source is not None:
        commit.move(change.source, change.file)
    elif change.write is not None:
        change.write(root, commit.add(change.file))


def _place_aside(root: Path, file: str) -> str:
    """Return a free place for a file that no longer belongs to the dataset."""
    place, number = f"{STORE}/aside/{file}", 2
    while (root / place).exists():
        place, number = f"{STORE}/aside/{number}/{file}", number + 1
    return place


def copy_with_changes(root: Path, out: Path, changes: Sequence[PlannedChange]) -> None:
    """Write a repaired copy of a dataset to a new folder, which appears whole.

    What begins with a dot is not part of the dataset, and is not copied.

    Raises:
        RecordingError: The folder exists and is not empty.
    """
    check_new(out)
    by_source = {change.source or change.file: change for change in changes}
    with atomic_folder(out) as folder:
        for path in walk(root):
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
                make_folder(target.parent, sync=False)
                change.write(root, target)
                sync_file(target)


def check_new(folder: Path) -> None:
    """Raise if a folder for a copy exists and is not empty.

    Raises:
        RecordingError: It does.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RecordingError(f"{str(folder)!r} already exists: choose a new folder.")


def _place(path: Path, target: Path) -> None:
    make_folder(target.parent, sync=False)
    copy_file(path, target)
    sync_file(target)
