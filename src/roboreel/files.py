"""Files and folders that are written completely or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "atomic_file",
    "atomic_folder",
    "copy_file",
    "make_folder",
    "sync_directory",
    "sync_file",
    "write_atomically",
]

_FICLONE = 0x40049409
"""The Linux request that makes a file share the blocks of another."""


@contextmanager
def atomic_file(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to ``path`` if the block does not raise.

    Args:
        path: The file to write. Its folder is created if it does not exist.
        sync: Whether to wait until the bytes, and then the name, are on the disk.

    Yields:
        A path in the same folder. If the block raises, it is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(_unfinished(path.name))
    try:
        yield temporary
        if sync:
            sync_file(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_directory(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; rename it to ``path`` if the block does not raise.

    Args:
        path: The folder to write. It does not exist, or is empty. The block syncs the files that it
            writes: see `sync_file`.

    Yields:
        A folder next to it. If the block raises, it is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(_unfinished(path.name))
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            path.rmdir()
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_directory(path.parent)


def _unfinished(name: str) -> str:
    # The suffix stays, since writers choose a container format by it.
    return f".{uuid.uuid4().hex[:12]}.tmp-{name}"


def write_atomically(path: Path, data: bytes | str, *, sync: bool = True) -> None:
    """Write a small file atomically, replacing the old one."""
    encoded = data.encode() if isinstance(data, str) else data
    with atomic_file(path, sync=sync) as temporary:
        temporary.write_bytes(encoded)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, sharing its blocks where the file system can; nothing is synced."""
    if not _cloned(source, target):
        shutil.copyfile(source, target)


def _cloned(source: Path, target: Path) -> bool:
    """Try to copy by reference, as Btrfs and XFS can."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    with source.open("rb") as old, target.open("wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            return False
    return True


def make_folder(path: Path) -> None:
    """Make a folder and those above it, as far as they do not exist; their names reach the disk."""
    above = path.parent
    if path.is_dir():
        return
    if above != path:
        make_folder(above)
    path.mkdir(exist_ok=True)
    sync_directory(above)


def sync_file(path: Path) -> None:
    """Wait until a file's bytes are on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in a folder are on the disk; on Windows, do nothing."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
