"""Files prepared aside, then decided by one rename."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from roboreel.commit.carry_out import finish_commit, in_parallel
from roboreel.commit.real_folder import RealFolder
from roboreel.commit.steps import Decision, Step, is_allowed, write_decision
from roboreel.commit.store import describe_change, next_number, now
from roboreel.errors import UnsafePathError
from roboreel.files import make_folder, remove_tree, sync_directory, sync_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from roboreel.commit.change import Change, PastChange
    from roboreel.commit.workshop import Workshop


class Commit:
    """Files that will appear in a folder, move in it, or leave it, in the order given.

    The files are prepared in the workshop. `run` waits until they are on the disk, decides by
    renaming the folder they are in, and then moves them one by one. A process that dies before the
    decision has changed nothing; what a process that dies after it left undone, `finish_commit`
    does. Readers wait for what changes (``change`` or ``undoes``), and refuse it if its process died.
    If files only come, choose the order so that readers find a whole dataset between any two steps.

    Args:
        workshop: The folder that changes. The caller holds its lock, and has finished what an
            earlier process had decided.
        change: What the change is. If given, old files are moved to the undo store, from where
            `undo_change` brings them back; if not, they are gone.
        undoes: The change that is undone, if any.
    """

    def __init__(
        self,
        workshop: Workshop,
        *,
        change: Change | None = None,
        undoes: PastChange | None = None,
    ) -> None:
        self._workshop = workshop
        self._change = change
        told = change or undoes
        self._told = None if told is None else f"{told.command}: {told.summary}"
        if undoes is not None:
            self._told = f"undo of {self._told}"
        self._folder = RealFolder(workshop.root)
        # What an earlier process prepared and did not decide can be made again.
        remove_tree(workshop.staged, ignore_errors=True)
        make_folder(workshop.staged)
        self._steps: list[Step] = []
        self._gone: set[str] = set()
        """Paths from which a step takes a file."""
        self.touched: set[str] = set()
        """Paths that a step has to do with."""

    @property
    def scratch(self) -> Path:
        """A folder on the same disk, for files in the making; what is in it must go before `run`."""
        return self._workshop.staged

    def add(self, target: str) -> Path:
        """Return where to write the file that will appear at a path below the folder.

        Raises:
            UnsafePathError: The workshop does not allow changes there.
            ValueError: The file there was removed or moved by an earlier step.
        """
        self._check_allowed(target, self._workshop.allows(target))
        if target in self._gone:
            # Carried out again after a crash, that step would take the new file.
            raise ValueError(f"{target!r} was removed or moved by an earlier step.")
        return self._stage(target)

    def remove(self, target: str) -> None:
        """Have a file leave the folder.

        Raises:
            UnsafePathError: The workshop does not allow changes there.
        """
        self._check_allowed(target, self._workshop.allows(target))
        self._take(Step(target))

    def move(self, source: str, target: str) -> None:
        """Give a file of the folder another place in it. Its bytes are neither read nor copied.

        Raises:
            UnsafePathError: The workshop does not allow changes at one of the paths.
            ValueError: There is no such file, the new place is taken, or another step has to do
                with one of the two.
        """
        for path in (source, target):
            allowed = self._workshop.allows_move(path) or self._workshop.allows_store(path)
            self._check_allowed(path, allowed)
            if path in self.touched:
                raise ValueError(f"{path!r} is part of two steps: a move must be the only one.")
        if not self._folder.stat(source) or self._folder.stat(target):
            raise ValueError(
                f"{source!r} cannot move to {target!r}: there is no such file, or the place is taken."
            )
        self._take(Step(target, source=source))

    def run(self) -> None:
        """Carry out all steps; when this returns, they are on the disk."""
        self._check_same_disk()
        decision = self._decide()
        staged = self._workshop.staged
        listed = write_decision(staged, decision)
        names = [step.staged for step in decision.steps if step.staged is not None]
        in_parallel(_sync, [listed, *(staged / name for name in names), staged])
        staged.rename(self._workshop.decided)
        sync_directory(self._workshop.path)
        finish_commit(self._workshop)

    def extend(self, steps: Iterable[Step]) -> None:
        """Add steps that bring old files back.

        Raises:
            UnsafePathError: The workshop does not allow one of them.
        """
        for step in steps:
            self._check_allowed(step.target, is_allowed(step, self._workshop))
            self._take(step)

    def _take(self, step: Step) -> None:
        self._steps.append(step)
        self.touched |= {step.target} if step.source is None else {step.target, step.source}
        gone = step.target if step.leaves else step.source
        self._gone |= set() if gone is None else {gone}

    def _decide(self) -> Decision:
        change = self._change
        if change is None or not change.undoable or not self._steps:
            purge = change is not None and not change.undoable
            return Decision(self._steps, purge=purge, change=self._told, time=now())
        number = next_number(self._workshop)
        steps = self._kept()
        described = describe_change(self._workshop, number, change, steps)
        # The last step: a change is part of the history once it is made.
        self._stage(self._workshop.change_path(number)).write_text(
            described.to_json(), encoding="utf-8"
        )
        return Decision([*steps, self._steps[-1]], number, change=self._told, time=now())

    def _kept(self) -> list[Step]:
        """Return the steps; the first that touches an old file keeps it."""
        seen: set[str] = set()
        steps = []
        for step in self._steps:
            old = step.target not in seen and self._folder.stat(step.target) is not None
            steps.append(replace(step, keep=old))
            seen.add(step.target)
        return steps

    def _stage(self, target: str) -> Path:
        # The ending stays, since writers choose a container format by it.
        name = f"{len(self._steps):05d}{PurePosixPath(target).suffix}"
        self._take(Step(target, name))
        return self._workshop.staged / name

    def _check_same_disk(self) -> None:
        # Files are renamed, which no system does from one disk to another.
        root, ours = self._workshop.root, self._workshop.staged.stat().st_dev
        for folder in {(root / step.target).parent for step in self._steps}:
            there = next(path for path in (folder, *folder.parents) if path.exists())
            if there.stat().st_dev != ours:
                raise UnsafePathError(
                    f"{str(there)!r} is on another disk than the dataset's folder, so its files "
                    f"cannot change together with the others. Copy the dataset to one disk: "
                    f"{str(root)!r}."
                )

    def _check_allowed(self, path: str, allowed: bool) -> None:
        # Here too: a step that is refused only after the decision could never be finished.
        if not allowed:
            raise UnsafePathError(
                f"A commit may not change {path!r}: it changes files that end in "
                f"{', '.join(self._workshop.suffixes)} below {', '.join(self._workshop.folders)}, "
                f"in {str(self._workshop.root)!r}."
            )


def _sync(path: Path) -> None:
    if path.is_dir():
        sync_directory(path)
    else:
        sync_file(path)
