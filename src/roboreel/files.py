"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "atomic_file",
    "atomic_folder",
    "atomic_name",
    "sync_directory",
    "sync_file",
    "write_atomically",
]


@contextmanager
def atomic_file(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """Give a temporary path to write to; move it to ``path`` when the block ends well.

    Args:
        path: Where the file shall appear. Its folder is made if need be.
        sync: Whether the bytes, and then the name, must be on the disk when the block ends.

    Yields:
        A path in the same folder. If the block raises, nothing is left there.
    """
    with atomic_name(str(path), sync=sync) as temporary:
        yield Path(temporary)


@contextmanager
def atomic_name(path: str, *, sync: bool = True) -> Iterator[str]:
    """Do what `atomic_file` does, for names: thousands of `Path` would fill Python's table of names."""
    folder, name = os.path.split(path)
    os.makedirs(folder or ".", exist_ok=True)
    temporary = os.path.join(folder, _unfinished(name))
    try:
        yield temporary
        if sync:
            sync_file(temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if sync:
        sync_directory(folder or ".")


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder to fill; move it to ``path`` when the block ends well.

    Args:
        path: Where the folder shall appear; nothing is there, or an empty folder. What is in it
            must be on the disk when the block ends: see `sync_file`.

    Yields:
        A folder beside it. If the block raises, nothing is left there.
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
    # The ending stays, since writers choose a container format by it.
    return f".{uuid.uuid4().hex[:12]}.tmp-{name}"


def write_atomically(path: Path, data: bytes | str, *, sync: bool = True) -> None:
    """Write a small file whole, in place of what was there."""
    encoded = data.encode() if isinstance(data, str) else data
    with atomic_file(path, sync=sync) as temporary:
        temporary.write_bytes(encoded)


def sync_file(path: str | Path) -> None:
    """Wait until a file's bytes are on the disk."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def sync_directory(path: str | Path) -> None:
    """Wait until a folder's names are on the disk; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
