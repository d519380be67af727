"""The lock of the one process that may change a folder."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from roboreel.errors import DatasetInUseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.commit.workshop import Workshop

__all__ = ["lock_folder", "locked"]


def lock_folder(workshop: Workshop) -> FileLock:
    """Return the lock of a folder, acquired; the workshop is made if need be.

    Raises:
        DatasetInUseError: Another process holds it, or another recorder of this one.
    """
    workshop.path.mkdir(parents=True, exist_ok=True)
    lock = FileLock(workshop.path / "lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise DatasetInUseError(
            "Another process records into this dataset, recovers it or compacts it: close that "
            f"recorder first, or wait for it, {str(workshop.root)!r}."
        ) from None
    return lock


@contextmanager
def locked(workshop: Workshop) -> Iterator[None]:
    """Hold the lock of a folder.

    Raises:
        DatasetInUseError: Another process holds it, or another recorder of this one.
    """
    lock = lock_folder(workshop)
    try:
        yield
    finally:
        lock.release()
