"""The undo store: what past changes wrote down about themselves, and the files they kept."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from roboreel.commit.change import FileChange, PastChange, parse_change
from roboreel.commit.real_folder import RealFolder
from roboreel.io.states import file_state
from roboreel.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roboreel.commit.change import Change
    from roboreel.commit.steps import Step
    from roboreel.commit.workshop import Workshop
    from roboreel.io.states import FileState


def numbers(workshop: Workshop) -> list[int]:
    """Return the numbers of the changes that have a folder in the store, ascending."""
    if not workshop.undo.is_dir():
        return []
    found = (entry.name for entry in workshop.undo.iterdir())
    return sorted(int(name) for name in found if name.isdecimal() and len(name) < 10)


def next_number(workshop: Workshop) -> int:
    """Return the number of the next change."""
    return max(numbers(workshop), default=0) + 1


def read_changes(workshop: Workshop) -> list[PastChange]:
    """Return the changes that can be undone, the newest first.

    Raises:
        CorruptFileError: What a change wrote down cannot be read.
    """
    folder = RealFolder(workshop.root)
    paths = {number: workshop.change_path(number) for number in reversed(numbers(workshop))}
    return [parse_change(workshop.root / p, n) for n, p in paths.items() if folder.stat(p)]


def describe_change(
    workshop: Workshop, number: int, change: Change, steps: Sequence[Step]
) -> PastChange:
    """Return what is written down about a change, before it is made.

    Args:
        workshop: The folder that changes.
        number: Number of the change.
        change: What the command says of it.
        steps: What it does; new files are staged.
    """
    folder = RealFolder(workshop.root)
    files: dict[str, FileChange] = {}
    for step in steps:
        before = files[step.target].before if step.target in files else _state(folder, step.target)
        after = _after(workshop, folder, step)
        files[step.target] = FileChange(step.target, before, after, step.source)
    info = files.get(workshop.head)
    found = folder.stat(workshop.head)
    head = file_state(found, workshop.root / workshop.head) if found else None
    return PastChange(
        number=number,
        command=change.command,
        summary=change.summary,
        time=now(),
        roboreel=__version__,
        files=tuple(files.values()),
        head=info.after if info is not None else head,
    )


def now() -> str:
    """Return the time, in UTC, as it is written down."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _state(folder: RealFolder, path: str) -> FileState | None:
    found = folder.stat(path)
    return file_state(found) if found else None


def _after(workshop: Workshop, folder: RealFolder, step: Step) -> FileState | None:
    if step.source is not None:
        return _state(folder, step.source)
    if step.staged is None:
        return None
    path = workshop.staged / step.staged
    return file_state(path.stat(), path)
