"""Which files a dataset's folder has: names and sizes, nothing opened but what looks like a pointer."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from roboreel.format.paths import METADATA_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roboreel.schema import Manifest

__all__ = ["Listing", "is_lfs_pointer", "list_files"]

_POINTER_START = b"version https://git-lfs.github.com/spec/"
_MOST_POINTER_BYTES = 1024
_DEEPEST = 8


@dataclass(slots=True)
class Listing:
    """The files below some folders of a dataset, by their paths with forward slashes."""

    sizes: dict[str, int] = field(default_factory=dict)
    """Size in bytes; -1 of a link that leads nowhere."""
    links: list[str] = field(default_factory=list)
    """Files and folders that are symbolic links."""

    def __contains__(self, path: str) -> bool:
        return self.sizes.get(path, -1) >= 0

    def add(self, root: str, folder: str) -> None:
        """Add the files of a folder and of those inside it; what begins with a dot is left out."""
        for entry in _entries(f"{root}/{folder}"):
            path = f"{folder}/{entry.name}"
            is_link = entry.is_symlink()
            if is_link:
                self.links.append(path)
            try:
                if entry.is_dir():
                    # A link to a folder is listed, but a loop of them must end.
                    if not is_link or path.count("/") < _DEEPEST:
                        self.add(root, path)
                    continue
                self.sizes[path] = entry.stat().st_size
            except OSError:
                self.sizes[path] = -1


def list_files(manifest: Manifest) -> Listing:
    """Return the files in the folders that the path templates and ``meta/`` name."""
    sets = [manifest.data_files, *manifest.video_files.values()]
    tops = {files.template.split("/", 1)[0] for files in sets} | {METADATA_FOLDER}
    listing = Listing()
    root = str(manifest.root)
    if any("{" in top or "." in top for top in tops):
        tops |= set(folders(manifest.root))
    for top in sorted(tops):
        if (manifest.root / top).is_dir():
            if (manifest.root / top).is_symlink():
                listing.links.append(top)
            listing.add(root, top)
    return listing


def folders(root: Path) -> list[str]:
    """Return the folders directly below a dataset's."""
    return sorted(entry.name for entry in _entries(str(root)) if entry.is_dir())


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file is what Git leaves in place of one that Git LFS has not fetched."""
    try:
        if path.stat().st_size > _MOST_POINTER_BYTES:
            return False
        with path.open("rb") as file:
            return file.read(len(_POINTER_START)) == _POINTER_START
    except OSError:
        return False


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                yield entry
