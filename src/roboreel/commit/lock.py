"""The lock of the one process that may change a folder."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from roboreel.commit.links import check_no_links
from roboreel.errors import DatasetInUseError
from roboreel.files import make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.commit.workshop import Workshop

__all__ = ["lock_folder", "locked"]


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
