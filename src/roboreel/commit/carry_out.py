"""What was decided is carried out, from any point at which a process may have died."""

from __future__ import annotations

import os
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from roboreel.commit.real_folder import RealFolder
from roboreel.commit.steps import STEPS, Decision, Step, UnreadableStepsError, read_decision
from roboreel.errors import CorruptFileError, ForeignChangeError
from roboreel.files import make_folder, remove_tree, sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from roboreel.commit.workshop import Workshop


def finish_commit(workshop: Workshop, *, any_owner: bool = False) -> bool:
    """Carry out what was decided and not done; return whether there was anything.

    Args:
        workshop: The folder that changes. The caller holds its lock.
        any_owner: Whether to carry out what another user of this machine decided.

    Raises:
        CorruptFileError: The list of steps cannot be read, or names files that may not change.
        ForeignChangeError: Another user decided it.
        UnsafePathError: A link lies on the way of a step.
    """
    folder = RealFolder(workshop.root)
    listed = folder.stat(workshop.decided_path(STEPS))
    if listed is not None:
        if not any_owner:
            _check_owner(workshop, listed)
        decision = read_decision(workshop)
        _Carrying(workshop, decision, folder).run()
        # Before the rest of the folder: without the list there is nothing to do again.
        folder.remove(workshop.decided_path(STEPS))
    elif not workshop.decided.is_dir():
        return False
    remove_tree(workshop.decided)
    return True


def drop_commit(workshop: Workshop) -> None:
    """Forget what was decided, where there is no dataset that it could belong to."""
    remove_tree(workshop.decided, ignore_errors=True)


def has_commit(workshop: Workshop) -> bool:
    """Whether something was decided and not finished."""
    return (workshop.decided / STEPS).exists()


def damaged_commit(workshop: Workshop) -> str | None:
    """Return the path below the folder of a commit whose list of steps cannot be read, if any."""
    if not has_commit(workshop):
        return None
    try:
        read_decision(workshop)
    except UnreadableStepsError:
        return workshop.decided.relative_to(workshop.root).as_posix()
    except CorruptFileError:  # it can be read, and may not be carried out: see finish_commit
        pass
    return None


def set_aside_commit(workshop: Workshop) -> None:
    """Move a commit that cannot be finished to the workshop's folder of what was set aside.

    If it only added episodes or joined files, nothing of the others is lost. If it changed what was
    there, the dataset may be in between: `roboreel check` compares.
    """
    aside = workshop.path / "aside" / uuid.uuid4().hex[:8]
    make_folder(aside)
    workshop.decided.rename(aside / workshop.decided.name)
    sync_directory(workshop.path)


class _Carrying:
    """Carries out steps; what is done already is not done again.

    An old file that is kept first gets a second name in the store, all of them before the first
    step. So readers never miss it, and a power cut cannot lose it: when the new file takes the old
    name, or the old name is removed, the file has moved. File systems that know one name per file
    get a plain move instead, right before the new file appears.
    """

    def __init__(self, workshop: Workshop, decision: Decision, folder: RealFolder) -> None:
        self._workshop, self._decision, self._folder = workshop, decision, folder
        self._touched: set[Path] = set()

    def run(self) -> None:
        """Carry out all steps; when this returns, they are on the disk."""
        for step in self._decision.steps:
            if step.keep and not self._name_twice(step):
                break
        # Before anything moves: a file in a folder whose name a power cut takes would be lost.
        self._make_room()
        self._sync()
        leaving = was_index = False
        for step in self._decision.steps:
            is_index = step.target.startswith(f"{self._workshop.index}/")
            if is_index or was_index or leaving != step.leaves:
                # The index describes files whose names must be on the disk before it is. What it
                # no longer describes leaves only once the new index is on the disk, and the old one
                # is gone from there.
                self._sync()
            leaving, was_index = step.leaves, is_index
            self._do(step)
        self._sync()
        for step in self._decision.steps:
            gone = step.target if step.leaves else step.source
            if gone is not None:
                self._folder.prune(gone)
        if self._decision.purge:
            remove_tree(self._workshop.undo, ignore_errors=True)

    def _make_room(self) -> None:
        for step in self._decision.steps:
            if not step.leaves:
                self._folder.make_room(step.target)
            if step.keep and self._folder.stat(step.target):
                self._folder.make_room(self._kept(step))

    def _kept(self, step: Step) -> str:
        return self._workshop.kept_path(self._decision.number or 0, step.target)

    def _name_twice(self, step: Step) -> bool:
        """Name the old file in the store too; return False where that is not possible."""
        kept = self._kept(step)
        waiting = step.staged is None or self._waits(step.staged)
        if not waiting or self._folder.stat(kept) or not self._folder.stat(step.target):
            return True
        self._touch(kept)
        return self._folder.link(step.target, kept)

    def _do(self, step: Step) -> None:
        self._touch(step.target)
        if step.source is not None:
            self._touch(step.source)
            if self._folder.stat(step.source):
                self._folder.move(step.source, step.target)
        elif step.staged is None:
            self._keep(step)
            self._folder.remove(step.target)
        elif self._waits(step.staged):
            self._keep(step)
            self._folder.move(self._workshop.decided_path(step.staged), step.target)

    def _keep(self, step: Step) -> None:
        if step.keep and not self._folder.stat(self._kept(step)) and self._folder.stat(step.target):
            self._touch(self._kept(step))
            self._folder.move(step.target, self._kept(step))

    def _waits(self, staged: str) -> bool:
        return self._folder.stat(self._workshop.decided_path(staged)) is not None

    def _touch(self, path: str) -> None:
        self._touched.add((self._workshop.root / path).parent)

    def _sync(self) -> None:
        touched = self._touched | self._folder.made
        in_parallel(sync_directory, [path for path in touched if path.exists()])
        self._touched.clear()
        self._folder.made.clear()


def _check_owner(workshop: Workshop, listed: os.stat_result) -> None:
    """Raise if the steps were listed by another user of this machine."""
    if not hasattr(os, "geteuid") or listed.st_uid == os.geteuid():
        return
    # Some file systems show all files as one user's: then a file of ours is too.
    with tempfile.TemporaryFile(dir=workshop.path) as ours:
        if os.fstat(ours.fileno()).st_uid == listed.st_uid:
            return
    raise ForeignChangeError(
        f"A change of this dataset was interrupted, and user {listed.st_uid} had decided it; you are "
        f"user {os.geteuid()}. Have that user run `roboreel recover`, or, if you trust it, run "
        f"`roboreel recover --any-owner`: {str(workshop.decided)!r}."
    )


def in_parallel(work: Callable[[Path], None], paths: Iterable[Path]) -> None:
    """Do the same to all paths at once: a disk syncs many files in little more time than one."""
    several = list(paths)
    if len(several) < 2:
        for path in several:
            work(path)
        return
    with ThreadPoolExecutor(min(8, len(several))) as pool:
        list(pool.map(work, several))
