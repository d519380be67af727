"""Files below a folder, moved and removed without following a link on the way."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from roboreel.errors import UnsafePathError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPENAT = {
    os.open,
    os.rename,
    os.unlink,
    os.mkdir,
    os.stat,
    os.link,
    os.rmdir,
} <= os.supports_dir_fd
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}
_IMPOSSIBLE = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
"""What no name of a file can hold; Python spells bytes that are not UTF-8 by other surrogates."""


class RealFolder:
    """Moves, links and removes regular files below a folder, given by paths with slashes.

    Where the system can, each folder is opened from the one above it, so that a link that is put
    there between a check and its use does not lead out either. Elsewhere each part is looked at.

    Args:
        root: The folder. It may itself be reached through a link.
        openat: Whether to open folders from each other. Default: if the system can.
    """

    def __init__(self, root: Path, *, openat: bool = _OPENAT) -> None:
        self._root = root
        self._openat = openat
        self.made: set[Path] = set()
        """Folders in which a new folder was made: to be synced."""

    def stat(self, path: str) -> os.stat_result | None:
        """Return what the system knows of a regular file; None if there is nothing.

        Raises:
            UnsafePathError: Something else is there, or a link on the way.
        """
        try:
            with self._at(path) as (name, folder):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise self._not_regular(path)
        return found

    def make_room(self, path: str) -> None:
        """Make the folders that a file needs."""
        with self._at(path, make=True):
            pass

    def move(self, source: str, target: str) -> None:
        """Give a file another place, in which it replaces what was there."""
        self.stat(source), self.stat(target)
        with self._at(source) as (old, above), self._at(target, make=True) as (new, below):
            os.replace(old, new, src_dir_fd=above, dst_dir_fd=below)

    def link(self, source: str, target: str) -> bool:
        """Give a file a second name; return False where the file system has no such names."""
        self.stat(source)
        with self._at(source) as (old, above), self._at(target, make=True) as (new, below):
            try:
                os.link(old, new, src_dir_fd=above, dst_dir_fd=below, follow_symlinks=not _OPENAT)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return False
        return True

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens if there is none."""
        if self.stat(path) is None:
            return
        with self._at(path) as (name, folder):
            os.unlink(name, dir_fd=folder)

    def prune(self, path: str) -> None:
        """Remove the folders of a file that has gone, as far as they are empty."""
        while "/" in path:
            path = path.rsplit("/", 1)[0]
            try:
                with self._at(path) as (name, folder):
                    os.rmdir(name, dir_fd=folder)
            except FileNotFoundError:
                continue
            except OSError:  # not empty, or in use: an empty folder would do no harm
                return

    @contextmanager
    def _at(self, path: str, *, make: bool = False) -> Iterator[tuple[str, int | None]]:
        """Yield a file's name, and the open folder that it is relative to if folders are opened."""
        *folders, name = path.split("/")
        if {"", ".", ".."} & {*folders, name} or _IMPOSSIBLE.search(path):
            raise self._not_regular(path)
        if not self._openat:
            yield str(self._look_along(folders, make=make) / name), None
            return
        handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for depth in range(1, len(folders) + 1):
                inner = self._open(folders[:depth], handle, make=make)
                os.close(handle)
                handle = inner
            yield name, handle
        finally:
            os.close(handle)

    def _open(self, folders: list[str], above: int, *, make: bool) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            return os.open(folders[-1], flags, dir_fd=above)
        except FileNotFoundError:
            if not make:
                raise
            os.mkdir(folders[-1], dir_fd=above)
            self.made.add(self._root.joinpath(*folders[:-1]))
            return os.open(folders[-1], flags, dir_fd=above)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise self._not_regular("/".join(folders)) from None
            raise

    def _look_along(self, folders: list[str], *, make: bool) -> Path:
        path = self._root
        for folder in folders:
            above, path = path, path / folder
            if make and not path.exists():
                path.mkdir()
                self.made.add(above)
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or getattr(found, "st_reparse_tag", False):
                raise self._not_regular(path.relative_to(self._root).as_posix())
        return path

    def _not_regular(self, path: str) -> UnsafePathError:
        return UnsafePathError(
            f"{path!r} is a symbolic link, or is not a file inside the dataset: nothing is changed "
            "through it. If the dataset came from elsewhere, do not trust it; otherwise "
            f"copy it with `cp -rL` and change the copy, {str(self._root)!r}."
        )
