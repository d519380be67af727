"""Files and folders that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "atomic_file",
    "atomic_folder",
    "claimed",
    "copy_file",
    "draft_folder",
    "final_names",
    "link_file",
    "make_folder",
    "move_folder",
    "remove_if_abandoned",
    "remove_leftovers",
    "sync_directory",
    "sync_file",
    "sync_tree",
    "write_atomically",
]

_FICLONE = 0x40049409
"""The Linux request that makes a file share the blocks of another."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNFINISHED = re.compile(r"\.[0-9a-f]{12}\.tmp-(.+)")


@contextmanager
def atomic_file(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to ``path`` if the block does not raise.

    Args:
        path: The file to write. Its folder is created if it does not exist.
        sync: Whether to wait until the bytes, and then the name, are on the disk.

    Yields:
        A path in the same folder. If the block raises, it is removed. If the process is killed, it
        stays until `remove_leftovers`.
    """
    make_folder(path.parent, sync=sync)
    temporary = path.with_name(_unfinished(path.name))
    try:
        with claimed(temporary):
            yield temporary
            if sync:
                sync_file(temporary)
            temporary.replace(path)
    except BaseException as error:
        _name_file(error, path)
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_directory(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; rename it to ``path`` if the block does not raise.

    Args:
        path: The folder to write. It does not exist, or is empty. All that the block writes is
            synced before the folder gets its name.

    Yields:
        A folder next to it. If the block raises, it is removed. What killed processes left of
        theirs is removed too.
    """
    make_folder(path.parent)
    remove_leftovers(path.parent, path.name)
    temporary = path.with_name(_unfinished(path.name))
    try:
        with claimed(temporary, folder=True):
            yield temporary
            sync_tree(temporary)
            if path.exists():
                path.rmdir()
            temporary.rename(path)
    except BaseException as error:
        _name_file(error, path)
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_directory(path.parent)


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder next to ``path``, for the block to fill and to rename.

    What is left of it is removed afterwards, and what a killed process left by `remove_leftovers`.
    """
    temporary = path.with_name(_unfinished(path.name))
    try:
        with claimed(temporary, folder=True):
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync_tree(folder: Path) -> None:
    """Wait until all files of a folder, and their names, are on the disk."""
    if os.name == "nt":  # which syncs no names, and no file that may not be written
        return
    for path, _, names in os.walk(folder):
        for name in names:
            if not Path(path, name).is_symlink():
                _sync_as_it_is(Path(path, name))
        _sync_as_it_is(Path(path))


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left of their `atomic_file` and `atomic_folder`.

    What a living process writes is locked, and stays. Windows has no such locks: everything stays.

    Args:
        folder: Where to look; not in folders below it.
        name: Only what would have become this file or folder.
    """
    try:
        entries = [entry.name for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        match = _UNFINISHED.fullmatch(entry)
        if match is not None and name in (None, match[1]):
            remove_if_abandoned(folder / entry)


def write_atomically(path: Path, data: bytes | str, *, sync: bool = True) -> None:
    """Write a small file atomically, replacing the old one and what killed processes left of it."""
    encoded = data.encode() if isinstance(data, str) else data
    remove_leftovers(path.parent, path.name)
    with atomic_file(path, sync=sync) as temporary:
        temporary.write_bytes(encoded)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, sharing its blocks where the file system can; nothing is synced."""
    if not _cloned(source, target):
        shutil.copyfile(source, target)


def link_file(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system has no such names."""
    try:
        target.hardlink_to(source)
    except OSError:
        copy_file(source, target)


def move_folder(source: Path, target: Path) -> None:
    """Move a folder that is synced, unless it was moved before: then the new place has it.

    On another disk it is copied: it appears at its new place when all of it is there, and the old
    one stays, so that a process that dies meanwhile has lost nothing.
    """
    if not source.exists() and target.is_dir():
        return
    if target.exists():
        shutil.rmtree(target)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with atomic_folder(target) as copy:
            shutil.copytree(source, copy, dirs_exist_ok=True)
    sync_directory(target.parent)


def _cloned(source: Path, target: Path) -> bool:
    """Try to copy by reference, as Btrfs and XFS can."""
    if sys.platform == "win32":
        return False
    with source.open("rb") as old, target.open("wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            return False
    return True


def make_folder(path: Path, *, sync: bool = True) -> None:
    """Make a folder and those above it, as far as they do not exist.

    Args:
        path: The folder.
        sync: Whether to wait until the names of new folders are on the disk.
    """
    above = path.parent
    if path.is_dir():
        return
    if above != path:
        make_folder(above, sync=sync)
    path.mkdir(exist_ok=True)
    if sync:
        sync_directory(above)


def sync_file(path: Path) -> None:
    """Wait until a file's bytes are on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in a folder are on the disk; on Windows, do nothing."""
    if os.name != "nt":
        _sync_as_it_is(path)


def _sync_as_it_is(path: Path) -> None:
    """Sync a folder, or a file that may be read-only."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _name_file(error: BaseException, path: Path) -> None:
    """Say which file it was if a full disk does not: a write knows no name."""
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
        error.strerror, error.filename = os.strerror(error.errno), str(path)


def final_names(text: str) -> str:
    """Return a text in which unfinished files and folders have the names that they would get.

    Examples:
        >>> final_names("No space left on device: 'out/.0123456789ab.tmp-page.html'")
        "No space left on device: 'out/page.html'"
    """
    return re.sub(r"\.[0-9a-f]{12}\.tmp-", "", text)


def _unfinished(name: str) -> str:
    # The suffix stays, since writers choose a container format by it.
    return f".{uuid.uuid4().hex[:12]}.tmp-{name}"


@contextmanager
def claimed(path: Path, *, folder: bool = False) -> Iterator[None]:
    """Make an empty file or folder, and lock it while the block runs: see `remove_leftovers`."""
    if sys.platform == "win32":
        if folder:
            path.mkdir()
        yield
        return
    handle = _make_locked_folder(path) if folder else _make_locked(path, os.O_RDWR | os.O_CREAT)
    try:
        yield
    finally:
        os.close(handle)


def _make_locked_folder(path: Path) -> int:
    while True:
        path.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):  # Removed as a leftover, before it was locked.
            return _make_locked(path, os.O_RDONLY)


def _make_locked(path: Path, flags: int) -> int:
    while True:
        handle = os.open(path, flags, 0o666)
        with suppress(OSError):  # The file system has no locks: nobody removes leftovers either.
            fcntl.flock(handle, fcntl.LOCK_SH)
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # Removed as a leftover, before it was locked.


def remove_if_abandoned(path: Path) -> None:
    """Remove a file or folder that was `claimed` by a process that is dead."""
    if sys.platform == "win32":
        return
    # Somebody else may remove it first, may not let us, or may be writing it.
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        finally:
            os.close(handle)
