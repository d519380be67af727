"""Files prepared aside, then decided by one rename."""

from __future__ import annotations

import shutil
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from roboreel.commit.steps import Step, finish_commit, in_parallel, write_steps
from roboreel.errors import UnsafePathError
from roboreel.files import sync_directory, sync_file

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.commit.workshop import Workshop

__all__ = ["Commit"]


class Commit:
    """Files that will appear in a folder, or leave it, in the order given.

    The files are prepared in the workshop. `run` waits until they are on the disk, decides by
    renaming the folder they are in, and then moves them one by one. A process that dies before the
    decision has changed nothing; what a process that dies after it left undone, `finish_commit`
    does. Choose the order so that readers find a whole dataset between any two steps.

    Args:
        workshop: The folder that changes. The caller holds its lock.
    """

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        # What an earlier process prepared and did not decide can be made again.
        shutil.rmtree(workshop.staged, ignore_errors=True)
        workshop.staged.mkdir(parents=True)
        self._steps: list[Step] = []

    def add(self, target: str) -> Path:
        """Return where to write the file that will appear at a path below the folder.

        Raises:
            UnsafePathError: The workshop does not allow changes there.
        """
        # The ending stays, since writers choose a container format by it.
        name = f"{len(self._steps):05d}{PurePosixPath(target).suffix}"
        self._append(Step(name, target))
        return self._workshop.staged / name

    def remove(self, target: str) -> None:
        """Have a file leave the folder.

        Raises:
            UnsafePathError: The workshop does not allow changes there.
        """
        self._append(Step(None, target))

    def run(self) -> None:
        """Carry out all steps; when this returns, they are on the disk."""
        staged = self._workshop.staged
        listed = write_steps(staged, self._steps)
        names = [step.staged for step in self._steps if step.staged is not None]
        in_parallel(_sync, [listed, *(staged / name for name in names), staged])
        staged.rename(self._workshop.decided)
        sync_directory(self._workshop.path)
        finish_commit(self._workshop)

    def _append(self, step: Step) -> None:
        # Here too: a step that is refused only after the decision could never be finished.
        if not self._workshop.allows(step.target):
            raise UnsafePathError(
                f"A commit may not change {step.target!r}: it changes files below "
                f"{', '.join(self._workshop.folders)}, in {str(self._workshop.root)!r}."
            )
        self._steps.append(step)


def _sync(path: Path) -> None:
    if path.is_dir():
        sync_directory(path)
    else:
        sync_file(path)
