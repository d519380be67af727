"""An edit carried out: what becomes of the files that it does not make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.commit import Change, Workshop, change_in_place, write_folder
from roboreel.edit.side_files import find_side_files
from roboreel.files import copy_file
from roboreel.format.edited_info import renamed_keys
from roboreel.format.paths import KNOWN_METADATA, METADATA_FOLDER
from roboreel.format.tables_v3 import episode_files
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from roboreel.commit import Commit, NewFolder
    from roboreel.edit.context import EditContext
    from roboreel.edit.side_files import SideFiles

_SHORTCUTS = ("numbers.npz", "cameras.npz")
"""What a recorder remembers of the rows; it is made again when it is missing."""


def carry_out(
    context: EditContext,
    out: Path | None,
    make: Callable[[Commit | NewFolder], object],
    check: Callable[[], None],
    *,
    summary: str,
) -> None:
    """Change the first source, entirely or not at all, or write a new dataset, which appears whole.

    Args:
        context: What to make.
        out: A folder for the new dataset; None to change the first source.
        make: Writes the files of the new dataset.
        check: Raises if a source has changed since the edit was planned.
        summary: What is done, in a line.
    """
    root = context.sources[0].root

    def replace(commit: Commit) -> None:
        for file, content in _renamed_files(context):
            commit.add(file).write_bytes(content)
        make(commit)
        there = {one.file for one in (*context.layout.data, *context.layout.videos)}
        for file in sorted(set(_old_files(context)) - there - commit.touched):
            commit.remove(file)
        for name in _SHORTCUTS:
            (Workshop(root).path / name).unlink(missing_ok=True)

    def fill(target: NewFolder) -> None:
        renamed = dict(_renamed_files(context))
        for file in side_files(context).files:
            if file in renamed:
                target.add(file).write_bytes(renamed[file])
            else:
                copy_file(root / file, target.add(file))
        make(target)

    if out is not None:
        write_folder(out, fill, check=check)
        return
    change = Change("edit", summary, undoable=not context.recipe.scrub)
    change_in_place(root, replace, check=check, change=change)


def side_files(context: EditContext) -> SideFiles:
    """Return what a new dataset gets beside its own files: what the first source has."""
    return find_side_files(context.sources[0].root, set(_old_files(context)))


def _old_files(context: EditContext) -> Iterator[str]:
    """Yield the files of the first source that the new dataset may not have."""
    root, manifest = context.sources[0].root, context.sources[0].manifest
    for files in (manifest.data_files, *manifest.video_files.values()):
        yield from (file for file in files.paths() if (root / file).is_file())
    if manifest.version.startswith("v3"):
        yield from (path.relative_to(root).as_posix() for path in episode_files(root))


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
