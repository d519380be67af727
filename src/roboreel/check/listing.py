"""Which files a dataset's folder has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roboreel.files import paths_end
from roboreel.format.paths import METADATA_FOLDER
from roboreel.io.sources import size_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from roboreel.schema import Manifest

# Folders inside folders, where links may go round in circles.
_DEEPEST = 8


class Listing:
    """The files in some folders of a dataset, by their paths with forward slashes.

    What begins with a dot is left out: it is not part of the dataset.

    Args:
        root: The dataset.
        folders: Folders directly below it; those that do not exist are passed over.
    """

    def __init__(self, root: Path, folders: Iterable[str]) -> None:
        self._root = root
        self.paths: set[str] = set()
        self.folders: set[str] = set()
        """Folders that have a file of their own."""
        self.links: list[str] = []
        """Files and folders that are symbolic links."""
        for folder in folders:
            if (root / folder).is_symlink():
                self.links.append(folder)
            if (root / folder).is_dir():
                self._left = [folder]
                while self._left:
                    self._add(str(root), self._left.pop())

    def __contains__(self, path: str) -> bool:
        return path in self.paths

    def size_bytes(self, path: str) -> int:
        """Return the size of a file; 0 if it cannot be told."""
        try:
            return size_of(self._root / path)
        except OSError:
            return 0

    def _add(self, root: str, folder: str) -> None:
        files: list[os.DirEntry[str]] = []
        others: list[os.DirEntry[str]] = []
        for entry in _entries(f"{root}/{folder}"):
            # Files first, and by what the folder itself says: there may be 300,000.
            (files if entry.is_file(follow_symlinks=False) else others).append(entry)
        self.paths.update([f"{folder}/{entry.name}" for entry in files])
        for entry in others:
            self._add_other(f"{folder}/{entry.name}", entry)
        if files or any(entry.is_file() for entry in others):
            self.folders.add(folder)

    def _add_other(self, path: str, entry: os.DirEntry[str]) -> None:
        """Add what is not simply a file: a folder or a link."""
        if not entry.is_symlink():
            if entry.is_dir():
                self._left.append(path)
            return
        self.links.append(path)
        if entry.is_file():
            self.paths.add(path)
        elif entry.is_dir() and path.count("/") < _DEEPEST:
            self._left.append(path)


def list_files(manifest: Manifest) -> Listing:
    """Return the files in ``meta/`` and in the folders that the path templates name."""
    sets = [manifest.data_files, *manifest.video_files.values()]
    tops = {files.template.split("/", 1)[0] for files in sets} | {METADATA_FOLDER}
    if any("{" in top or "." in top for top in tops):
        tops |= set(top_folders(manifest.root))
    return Listing(manifest.root, sorted(tops))


def top_folders(root: Path) -> list[str]:
    """Return the folders directly below a dataset's."""
    return sorted(entry.name for entry in _entries(str(root)) if entry.is_dir())


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with paths_end(folder), os.scandir(folder) as entries:
        return [entry for entry in entries if entry.name[0] != "."]
