"""What lies beside a dataset in its folder, and where links among it lead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.files import walk
from roboreel.format.paths import KNOWN_METADATA, METADATA_FOLDER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_FOLDERS_OF_THE_DATASET = ("data", "videos")


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
