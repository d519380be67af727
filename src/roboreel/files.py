"""Files and folders that are written completely or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import sys
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator

_FICLONE = 0x40049409
"""The Linux request that makes a file share the blocks of another."""
# Opening a FIFO waits for a writer unless told not to. Regular files ignore the flag.
_READING = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_PIECE_BYTES = 1 << 20
_LONG_PATH = 200
"""Shorter paths, and a name more, are taken by every system."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNFINISHED = re.compile(r"\.[0-9a-f]{12}\.tmp-(.+)")


def user_folder(variable: str, *default: str) -> Path:
    """Return the folder that an environment variable names, or one below the user's own cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(variable) or Path(base, "roboreel", *default))


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
        remove_tree(temporary, ignore_errors=True)
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
        remove_tree(temporary, ignore_errors=True)


def sync_tree(folder: Path) -> None:
    """Wait until all files of a folder, and their names, are on the disk."""
    if os.name == "nt":  # which syncs no names, and no file that may not be written
        return
    for path in (folder, *walk(folder)):
        if not path.is_symlink():
            _sync_as_it_is(path)


def walk(folder: Path) -> Iterator[Path]:
    """Yield all that lies below a folder, sorted; links to folders are not followed.

    Unlike ``rglob``, it goes as deep as there are folders. One that may not be read counts as empty.

    Raises:
        CorruptFileError: A path is longer than the system lets any be.
    """
    left = [(folder, True)]
    while left:
        path, is_folder = left.pop()
        if path != folder:
            yield path
        if is_folder:
            with suppress(PermissionError, FileNotFoundError, NotADirectoryError), paths_end(path):
                found = [(path / e.name, e.is_dir(follow_symlinks=False)) for e in os.scandir(path)]
                left += sorted(found, reverse=True)
                if found and len(str(found[0][0])) > _LONG_PATH:
                    for below, _ in found:
                        below.lstat()


@contextmanager
def paths_end(path: Path | str) -> Iterator[None]:
    """Say in our words that folders are nested so deep that the system takes no path to the last.

    Raises:
        CorruptFileError: They are.
    """
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        start = f"{str(path)[:80]}…"
        raise CorruptFileError(
            f"Folders are nested deeper than a path may be long: {start!r}."
        ) from error


def remove_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a folder with all that is in it, at any depth. What is not a folder stays."""
    if path.is_symlink() or not path.is_dir():  # rmtree would wait for a FIFO.
        if not ignore_errors:
            kind = errno.ENOTDIR if path.is_symlink() or path.exists() else errno.ENOENT
            raise OSError(kind, os.strerror(kind), str(path))
        return
    try:
        shutil.rmtree(path, ignore_errors=ignore_errors)
    except RecursionError:  # Up to Python 3.12.
        for each in reversed([path, *walk(path)]):
            each.rmdir() if each.is_dir() and not each.is_symlink() else each.unlink()


def copy_tree(source: Path, target: Path) -> None:
    """Copy the regular files of a folder to a new one, or one that is empty."""
    make_folder(target, sync=False)
    for path in walk(source):
        new = target / path.relative_to(source)
        new.mkdir() if path.is_dir() and not path.is_symlink() else copy_file(path, new)


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


def open_regular(path: Path, noun: str = "file") -> tuple[int, os.stat_result]:
    """Return a handle of a regular file, and its state: the one place that opens files of others.

    Args:
        path: The file. Links are followed.
        noun: What the file is, for the error.

    Raises:
        CorruptFileError: It is a folder, a FIFO, a device or a socket, which might never end.
        OSError: It cannot be opened.
    """
    try:
        handle = os.open(path, _READING)
    except OSError as error:
        if error.errno != errno.ENXIO:  # What opening a socket says.
            raise
        raise _not_regular(path, noun) from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise _not_regular(path, noun)
    return handle, status


def _not_regular(path: Path, noun: str) -> CorruptFileError:
    return CorruptFileError(f"The {noun} is not a regular file: {str(path)!r}.")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(open_regular(path)[0], "rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def copy_file(source: Path, target: Path) -> None:
    """Copy a regular file, sharing its blocks where the file system can; nothing is synced."""
    with open(open_regular(source)[0], "rb") as old, target.open("wb") as new:
        if not _cloned(old.fileno(), new.fileno()):
            shutil.copyfileobj(old, new, _PIECE_BYTES)


def link_file(source: Path, target: Path) -> None:
    """Give a regular file a second name, or copy it where the file system has no such names."""
    if not stat.S_ISREG(source.stat().st_mode):
        raise _not_regular(source, "file")
    try:
        # Resolved: Linux would give the second name to a symbolic link, which leads elsewhere there.
        target.hardlink_to(source.resolve())
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
        remove_tree(target)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with atomic_folder(target) as copy:
            copy_tree(source, copy)
    sync_directory(target.parent)


def _cloned(old: int, new: int) -> bool:
    """Try to copy by reference, as Btrfs and XFS can."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.ioctl(new, _FICLONE, old)
    except OSError:
        return False
    return True


def make_folder(path: Path, *, sync: bool = True) -> None:
    """Make a folder and those above it, as far as they do not exist.

    Args:
        path: The folder.
        sync: Whether to wait until the names of new folders are on the disk.
    """
    missing = [path]
    while not missing[-1].is_dir():
        missing.append(missing[-1].parent)
    for folder in reversed(missing[:-1]):
        folder.mkdir(exist_ok=True)
        if sync:
            sync_directory(folder.parent)


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
    handle = os.open(path, _READING)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _name_file(error: BaseException, path: Path) -> None:
    """Say which file it was if a full disk does not: a write knows no name."""
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
        # Errors of PyAV keep what they say in `args` alone.
        error.args = (error.errno, os.strerror(error.errno), str(path))
        with suppress(AttributeError):
            error.strerror, error.filename = error.args[1:]


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
                remove_tree(path)
            else:
                path.unlink()
        finally:
            os.close(handle)
