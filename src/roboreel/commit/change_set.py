"""What a change will do to a dataset's files, and the one way to carry it out: here, or to a folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from roboreel.commit.carry_out import finish_commit
from roboreel.commit.lock import locked
from roboreel.commit.prepare import Commit
from roboreel.commit.workshop import Workshop
from roboreel.errors import EditError, FolderTakenError
from roboreel.files import atomic_folder, make_folder
from roboreel.format.edits import ABSENT, How

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from roboreel.commit.change import Change
    from roboreel.format.edits import Difference, FileEdit
    from roboreel.io.states import FolderState

_MOST_SHOWN = 6
_WIDTH = 80
_LEAST_CHARACTERS = 16
_INDENT = " " * 12


@dataclass(frozen=True, slots=True)
class NewFolder:
    """A folder that is filled from nothing. Files are added to it as to a `Commit`."""

    scratch: Path
    """The folder, which may hold files in the making too."""

    def add(self, target: str) -> Path:
        """Return where to write the file that will appear at a path below the folder."""
        path = self.scratch / target
        make_folder(path.parent, sync=False)
        return path


@dataclass(frozen=True)
class ChangeSet:
    """What a change will do. It prints as a list of files, and does nothing until it is applied."""

    root: Path
    """The dataset's folder; of a merge, that of the first."""
    out: Path | None
    """Where the new dataset is written; None if the old one changes."""
    files: tuple[FileEdit, ...]
    """What becomes of each file."""
    states: tuple[FolderState, ...]
    """The files as they are now: a plan is applied to these and no others."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def written_bytes(self) -> int:
        """Bytes that will be written, about."""
        return sum(one.written_bytes for one in self.files)

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines."""
        yield from file_lines(self.files)

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "path": str(self.root),
            "out": None if self.out is None else str(self.out),
            "written_bytes": self.written_bytes,
            "files": [one.to_json() for one in self.files],
        }

    def check(self) -> None:
        """Raise if a file has changed since the plan was made.

        Raises:
            StaleDatasetError: One has.
        """
        for state in self.states:
            state.check()


def change_in_place(
    root: Path,
    stage: Callable[[Commit], object],
    *,
    check: Callable[[], None],
    change: Change | None = None,
) -> None:
    """Change a dataset, entirely or not at all.

    Args:
        root: The dataset's folder.
        stage: Adds the files that come and go to the commit.
        check: Raises if the dataset has changed since the plan was made.
        change: What the change is, if old files are kept for an undo.

    Raises:
        DatasetInUseError: Another process changes the dataset.
    """
    workshop = Workshop(root)
    with locked(workshop):
        finish_commit(workshop)
        check()
        commit = Commit(workshop, change=change)
        stage(commit)
        commit.run()


def write_folder(
    out: Path, stage: Callable[[NewFolder], object], *, check: Callable[[], None]
) -> None:
    """Write a dataset to a new folder, which appears whole.

    Args:
        out: The folder.
        stage: Adds the files that come.
        check: Raises if a source has changed since the plan was made.

    Raises:
        FolderTakenError: The folder exists and is not empty.
    """
    check()
    check_free(out)
    with atomic_folder(out) as folder:
        stage(NewFolder(folder))
        check()


def check_free(out: Path) -> None:
    """Raise if a folder for a new dataset is taken.

    Raises:
        FolderTakenError: It exists and is not empty, or is a link.
    """
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise FolderTakenError(f"{str(out)!r} already exists: choose a new folder.")


def check_space(folder: Path, needed_bytes: int) -> None:
    """Raise if a disk has no room for what is to be written.

    Raises:
        EditError: It has not.
    """
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if needed_bytes > free:
        raise EditError(
            f"About {needed_bytes:,} bytes would be written, and {free:,} are free: make room, or "
            f"write to another disk with --out. The disk of {str(folder)!r}."
        )


def file_lines(files: Iterable[FileEdit]) -> Iterator[str]:
    """Yield what becomes of files: differences as a diff, the other files by what becomes of them."""
    groups: dict[str, list[FileEdit]] = {how: [] for how in get_args(How)}
    for one in files:
        if one.differences:
            yield f"{_name(one)}"
            yield from _diff(one.differences)
        else:
            groups[one.how].append(one)
    for how, group in groups.items():
        if not group:
            continue
        noun = "file" if len(group) == 1 else "files"
        yield f"{how:>10}  {len(group):,} {noun}, {size_text(sum(f.size_bytes for f in group))}"
        yield from (f"{_INDENT}{_name(one)}" for one in group[:_MOST_SHOWN])
        if len(group) > _MOST_SHOWN:
            yield f"{_INDENT}and {len(group) - _MOST_SHOWN:,} more"


def size_text(size_bytes: int) -> str:
    """Return a size as people read it."""
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 1e5 else f"{size_bytes / 1e3:,.1f} kB"


def _name(one: FileEdit) -> str:
    name = one.file if one.source is None else f"{one.source} -> {one.file}"
    return f"{name}  ({', '.join(one.codes)})" if one.codes else name


def _diff(differences: Sequence[Difference]) -> Iterator[str]:
    for one in differences[:_MOST_SHOWN]:
        for sign, value in (("-", one.old), ("+", one.new)):
            if value is not ABSENT:
                yield _shortened(f"{sign} {one.what}: ", value)
    if len(differences) > _MOST_SHOWN:
        yield f"  and {len(differences) - _MOST_SHOWN:,} more values"


def _shortened(start: str, value: object) -> str:
    """Return a line of the diff, whose value is cut off if it is long."""
    text = value if isinstance(value, str) else repr(value)
    room = max(_LEAST_CHARACTERS, _WIDTH - len(start))
    return start + (text if len(text) <= room else f"{text[: room - 1]}…")
