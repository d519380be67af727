"""The lock of the one process that may change a folder, and the links for which it is refused."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from roboreel.errors import DatasetInUseError, UnsafePathError
from roboreel.files import make_folder, paths_end

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roboreel.commit.workshop import Workshop


def lock_folder(workshop: Workshop) -> FileLock:
    """Return the lock of a folder, acquired; the workshop is made if need be.

    Raises:
        DatasetInUseError: Another process holds it, or another recorder of this one.
        UnsafePathError: A file or folder that may change is a symbolic link.
    """
    # First of all: the lock itself would be made through a link.
    check_no_links(workshop)
    make_folder(workshop.path)
    lock = FileLock(workshop.path / "lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise DatasetInUseError(
            "Another process changes this dataset (it records, recovers, compacts, repairs or "
            f"edits): close that recorder first, or wait for it, {str(workshop.root)!r}."
        ) from None
    return lock


@contextmanager
def locked(workshop: Workshop) -> Iterator[None]:
    """Hold the lock of a folder.

    Raises:
        DatasetInUseError: Another process holds it, or another recorder of this one.
        UnsafePathError: A file or folder that may change is a symbolic link.
    """
    lock = lock_folder(workshop)
    try:
        yield
    finally:
        lock.release()


# Folders that writers refuse, since links lead out of them, or pipes would keep them waiting.


def check_no_links(workshop: Workshop) -> None:
    """Raise if anything that a writer might change is a symbolic link, a pipe, a socket or a device.

    Reading follows links as ever. A change through one would reach files of others: those of the
    Hub's cache, which snapshots share, or anything that a foreign dataset points to. Whoever opens
    a pipe waits for its other end.

    Raises:
        UnsafePathError: There is one.
    """
    root = workshop.root
    for name in (workshop.name, workshop.store, *workshop.folders):
        found = name if (root / name).is_symlink() else _first_odd(str(root), name)
        if found is not None:
            raise _refusal(root, found)


def _first_odd(root: str, folder: str) -> str | None:
    """Return the path of the first entry below a folder that is neither a file nor a folder.

    The entries are listed, not opened.
    """
    left = [folder]
    while left:
        above = left.pop()
        try:
            with paths_end(f"{root}/{above}"):
                entries = os.scandir(f"{root}/{above}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for entry in entries:
                path = f"{above}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    left.append(path)
                # Another process may have removed it by now.
                elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry):
                    return path
    return None


def _refusal(root: Path, link: str) -> UnsafePathError:
    if not (root / link).is_symlink():
        return UnsafePathError(
            f"{link!r} is a pipe, a socket or a device, so the dataset is not changed: its files are "
            f"regular files. If it came from elsewhere, do not trust it; or remove it: {str(root)!r}."
        )
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
