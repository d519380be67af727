"""An edit carried out, and what becomes of the files that it does not make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.commit import Change, Workshop, change_in_place, write_folder
from roboreel.files import copy_file, walk
from roboreel.format.edited_info import renamed_keys
from roboreel.format.paths import KNOWN_METADATA, METADATA_FOLDER
from roboreel.format.tables_v3 import episode_files
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from roboreel.commit import Commit, NewFolder
    from roboreel.edit.context import EditContext

_SHORTCUTS = ("numbers.npz", "cameras.npz")
"""What a recorder remembers of the rows; it is made again when it is missing."""
_FOLDERS_OF_THE_DATASET = ("data", "videos")


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


@dataclass(frozen=True, slots=True)
class SideFiles:
    """Files that a new dataset gets beside its own, by their paths below the folder."""

    files: tuple[str, ...] = ()
    """All of them. A link to a file is followed."""
    outside: tuple[str, ...] = ()
    """Those that are links which lead out of the folder, other than to the Hub's cache."""
    left_out: tuple[str, ...] = ()
    """Links to folders, which may lead to anything, and to files of the dataset: those of deleted
    episodes must not come along under another name."""


def find_side_files(root: Path, listed: Collection[str]) -> SideFiles:
    """Return what lies beside a dataset; what begins with a dot is left out.

    Args:
        root: The dataset's folder.
        listed: Files of the dataset.
    """
    files, outside, left_out = [], [], []
    home = root.resolve()
    inside = (home, home.parent.parent / "blobs")
    for path in _below(root):
        name = path.relative_to(root).as_posix()
        if any(name == one or name.startswith(f"{one}/") for one in KNOWN_METADATA):
            continue
        if path.is_dir():
            if path.is_symlink() and name != METADATA_FOLDER:
                left_out.append(name)
        elif path.is_file() and name not in listed:
            target = path.resolve() if path.is_symlink() else None
            if target is not None and _name_below(home, target) in listed:
                left_out.append(name)
                continue
            files.append(name)
            if target is not None and not any(map(target.is_relative_to, inside)):
                outside.append(name)
    return SideFiles(tuple(files), tuple(outside), tuple(left_out))


def _name_below(folder: Path, path: Path) -> str | None:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else None


def _below(root: Path) -> Iterator[Path]:
    """Yield files, folders and links below a folder, in order; links to folders are not followed."""
    for top in sorted(root.iterdir()):
        if top.name in _FOLDERS_OF_THE_DATASET or top.name.startswith("."):
            continue
        yield top
        if top.is_dir() and (not top.is_symlink() or top.name == METADATA_FOLDER):
            for path in walk(top):
                if not any(part.startswith(".") for part in path.relative_to(root).parts):
                    yield path
