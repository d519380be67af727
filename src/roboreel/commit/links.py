"""Folders that writers refuse, since links lead out of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roboreel.errors import UnsafePathError

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.commit.workshop import Workshop

__all__ = ["check_no_links"]


def check_no_links(workshop: Workshop) -> None:
    """Raise if a file or folder that a writer might change is a symbolic link.

    Reading follows links as ever. A change through one would reach files of others: those of the
    Hub's cache, which snapshots share, or anything that a foreign dataset points to.

    Raises:
        UnsafePathError: There is a link.
    """
    root = workshop.root
    for name in (workshop.name, workshop.store, *workshop.folders):
        link = name if (root / name).is_symlink() else _first_link(str(root), name)
        if link is not None:
            raise _refusal(root, link)


def _first_link(root: str, folder: str) -> str | None:
    """Return the path of the first link below a folder; the entries are listed, not opened."""
    try:
        entries = os.scandir(f"{root}/{folder}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    with entries:
        for entry in entries:
            path = f"{folder}/{entry.name}"
            if entry.is_symlink():
                return path
            if entry.is_dir(follow_symlinks=False):
                inner = _first_link(root, path)
                if inner is not None:
                    return inner
    return None


def _refusal(root: Path, link: str) -> UnsafePathError:
    leads_to = str((root / link).readlink())
    copy = "Copy the dataset with its links followed (`cp -rL`), or write one with `--out DIR`"
    if "/blobs/" in leads_to.replace("\\", "/"):
        return UnsafePathError(
            "This dataset is a snapshot in the Hub's cache, whose files are links that other "
            f"snapshots share, so it is not changed in place. {copy}: {str(root)!r}."
        )
    return UnsafePathError(
        f"{link!r} is a symbolic link to {leads_to!r}, so the dataset is not changed in place: that "
        f"would change files outside it. {copy}, or move the files to where the link is: "
        f"{str(root)!r}."
    )
