"""An edit carried out: in place as one commit, or as a new dataset that appears whole."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from roboreel.commit import Change, Commit, Workshop, finish_commit, locked
from roboreel.edit.side_files import find_side_files
from roboreel.errors import EditError, FolderTakenError
from roboreel.files import atomic_folder, copy_file, make_folder
from roboreel.format.edited_info import renamed_keys
from roboreel.format.paths import KNOWN_METADATA, METADATA_FOLDER
from roboreel.format.tables_v3 import episode_files
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from roboreel.edit.context import EditContext
    from roboreel.edit.making import Stage
    from roboreel.edit.side_files import SideFiles

    Make = Callable[[Stage], object]
    Check = Callable[[], None]

_SHORTCUTS = ("numbers.npz", "cameras.npz")
"""What a recorder remembers of the rows; it is made again when it is missing."""


def edit_in_place(context: EditContext, make: Make, check: Check, *, summary: str) -> None:
    """Change the first source, entirely or not at all. Old files are kept for an undo.

    Args:
        context: What to make.
        make: Writes the files of the new dataset.
        check: Raises if the dataset has changed since the edit was planned.
        summary: What is done, in a line.
    """
    root = context.sources[0].root
    workshop = Workshop(root)
    with locked(workshop):
        finish_commit(workshop)
        check()
        change = Change("edit", summary, undoable=not context.recipe.scrub)
        commit = Commit(workshop, change=change)
        staged: list[str] = []

        def stage(file: str) -> Path:
            staged.append(file)
            return commit.add(file)

        for file, content in _renamed_files(context):
            stage(file).write_bytes(content)
        make(stage)
        for file in sorted(set(_old_files(context)) - {*staged, *_kept(context)}):
            commit.remove(file)
        for name in _SHORTCUTS:
            (workshop.path / name).unlink(missing_ok=True)
        commit.run()


def write_new(context: EditContext, out: Path, make: Make, check: Check) -> None:
    """Write the new dataset to a folder, which appears whole.

    Args:
        context: What to make.
        out: The folder.
        make: Writes the files of the new dataset.
        check: Raises if a source has changed since the edit was planned.

    Raises:
        FolderTakenError: The folder exists and is not empty.
    """
    check()
    check_free(out)
    with atomic_folder(out) as folder:

        def stage(file: str) -> Path:
            path = folder / file
            make_folder(path.parent, sync=False)
            return path

        renamed = dict(_renamed_files(context))
        for file in side_files(context).files:
            if file in renamed:
                stage(file).write_bytes(renamed[file])
            else:
                copy_file(context.sources[0].root / file, stage(file))
        make(stage)
        check()


def side_files(context: EditContext) -> SideFiles:
    """Return what a new dataset gets beside its own files: what the first source has."""
    return find_side_files(context.sources[0].root, set(_old_files(context)))


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


def _old_files(context: EditContext) -> Iterator[str]:
    """Yield the files of the first source that the new dataset may not have."""
    source = context.sources[0]
    yield from (file for file in source.manifest.data_files.paths() if _is_there(source.root, file))
    for files in source.manifest.video_files.values():
        yield from (file for file in files.paths() if _is_there(source.root, file))
    if source.manifest.version.startswith("v3"):
        yield from (p.relative_to(source.root).as_posix() for p in episode_files(source.root))


def _is_there(root: Path, file: str) -> bool:
    return (root / file).is_file()


def _kept(context: EditContext) -> set[str]:
    layout = context.layout
    return {target.file for target in (*layout.data, *layout.videos) if target.rung == "kept"}


def _renamed_files(context: EditContext) -> Iterator[tuple[str, bytes]]:
    """Yield the files of meta/ that name features which have other names now."""
    root, names = context.sources[0].root, context.recipe.names[0]
    if not names:
        return
    for path in sorted((root / METADATA_FOLDER).glob("*.json")):
        file = path.relative_to(root).as_posix()
        if file not in KNOWN_METADATA:
            content = renamed_keys(read_file(path), names)
            if content is not None:
                yield file, content
