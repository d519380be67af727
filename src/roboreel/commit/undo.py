"""Undoing the newest change of a folder, and forgetting old ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.commit.carry_out import finish_commit
from roboreel.commit.lock import locked
from roboreel.commit.prepare import Commit
from roboreel.commit.real_folder import RealFolder
from roboreel.commit.steps import Step
from roboreel.commit.store import numbers, read_changes
from roboreel.commit.workshop import Workshop
from roboreel.errors import NotADatasetError, UndoError
from roboreel.files import remove_tree, sync_directory
from roboreel.format.info import what_is_there

if TYPE_CHECKING:
    import os

    from roboreel.commit.change import FileChange, PastChange
    from roboreel.io.states import FileState


def list_changes(root: str | os.PathLike[str]) -> list[PastChange]:
    """Return the changes of a dataset whose old files are kept, the newest first.

    Raises:
        NotADatasetError: There is no folder at this path.
        CorruptFileError: What a change wrote down cannot be read.
    """
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise NotADatasetError(what_is_there(folder))
    return read_changes(Workshop(folder))


def newest_change(root: str | os.PathLike[str]) -> PastChange:
    """Return the change that `undo_change` would undo.

    Raises:
        UndoError: There is none.
    """
    changes = list_changes(root)
    if not changes:
        raise UndoError(f"There is no change to undo: {str(root)!r}.")
    return changes[0]


def undo_change(root: str | os.PathLike[str]) -> PastChange:
    """Undo the newest change of a dataset: its files are again what they were, byte by byte.

    A process that dies in it leaves the dataset as it was before or after, once the next writer
    has finished what was decided.

    Args:
        root: The dataset's folder.

    Returns:
        The change that was undone.

    Raises:
        UndoError: There is no change, or the dataset is no longer what it left: what came later,
            such as recorded episodes, would be lost.
        DatasetInUseError: Another process changes the dataset.
        UnsafePathError: A file or folder of the dataset is a symbolic link.
    """
    workshop = Workshop(Path(root).expanduser())
    newest_change(root)  # before the lock, which makes a folder
    with locked(workshop):
        finish_commit(workshop)
        change = newest_change(root)
        check_undoable(root, change)
        commit = Commit(workshop, undoes=change)
        commit.extend(undo_steps(change, workshop))
        commit.run()
    return change


def purge_changes(root: str | os.PathLike[str], *, keep: int = 0) -> list[int]:
    """Delete the old files of all changes but the newest few; those can no longer be undone.

    Args:
        root: The dataset's folder.
        keep: How many changes to keep.

    Returns:
        The numbers of the changes that were forgotten.

    Raises:
        ValueError: ``keep`` is negative.
        DatasetInUseError: Another process changes the dataset.
    """
    if keep < 0:
        raise ValueError(f"{keep} changes cannot be kept: give 0 or more.")
    workshop = Workshop(Path(root).expanduser())
    if not numbers(workshop):
        return []
    with locked(workshop):
        finish_commit(workshop)
        found = numbers(workshop)
        forgotten = found[: max(0, len(found) - keep)]
        for number in forgotten:
            _forget(workshop, number)
    return forgotten


def check_undoable(root: str | os.PathLike[str], change: PastChange) -> None:
    """Raise if a dataset is no longer what a change left, or if an old file is gone.

    Raises:
        UndoError: It cannot be undone.
    """
    workshop = Workshop(Path(root).expanduser())
    folder = RealFolder(workshop.root)
    left: dict[str, FileState | None] = {file.path: file.after for file in change.files}
    left |= {file.moved_from: None for file in change.files if file.moved_from is not None}
    for path, state in {workshop.head: change.head, **left}.items():
        found = folder.stat(path)
        same = (
            found is None if state is None else found and state.matches(found, workshop.root / path)
        )
        if not same:
            raise UndoError(
                f"The dataset is no longer what {change.command!r} left on {change.time}: {path!r} "
                "has changed since, and that would be lost. Free the space of the old files with "
                f"`roboreel history --purge`: {str(workshop.root)!r}."
            )
    for file in change.files:
        kept = workshop.kept_path(change.number, file.path)
        old = folder.stat(kept)
        if file.before and (old is None or old.st_size != file.before.size_bytes):
            raise UndoError(
                f"The old {file.path!r} is no longer in the undo store, so {change.command!r} cannot "
                f"be undone: {str(workshop.root / kept)!r}."
            )


def undo_steps(change: PastChange, workshop: Workshop) -> list[Step]:
    """Return the steps that undo a change.

    Files that had been removed come first, the index next and info.json as its last, then new files
    leave: so readers find a whole dataset in between.
    """

    def rank(file: FileChange) -> tuple[bool, bool]:
        return file.path.startswith(f"{workshop.index}/"), file.path == workshop.head

    steps = []
    for file in sorted(change.files, key=rank):
        if file.moved_from is not None:
            steps.append(Step(file.moved_from, source=file.path))
        elif file.before is not None:
            steps.append(Step(file.path, source=workshop.kept_path(change.number, file.path)))
    new = [f.path for f in change.files if f.before is None and f.moved_from is None]
    return [*steps, *map(Step, new), Step(workshop.change_path(change.number))]


def _forget(workshop: Workshop, number: int) -> None:
    # First what is written down: a change of which files are gone must not seem to be there.
    RealFolder(workshop.root).remove(workshop.change_path(number))
    folder = (workshop.root / workshop.change_path(number)).parent
    sync_directory(folder)
    remove_tree(folder)
