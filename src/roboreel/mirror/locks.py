"""Locks between the processes of a machine; the system frees those of a process that ends.

Windows has no such locks that several processes may hold. There, a mirror belongs to one process at
a time, and its blocks need no locks.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

SHARES = sys.platform != "win32"
"""Whether processes share mirrors; tests set it to False, to do as Windows does."""
_only_process = threading.Lock()
"""Where mirrors are not shared, threads alone are kept apart."""
_FLAGS = (
    os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # Each system lacks one of the two.


def open_file(path: Path) -> int:
    """Return a handle of a file for its owner alone, which is made if there is none."""
    return os.open(path, _FLAGS, 0o600)


def lengthen(handle: int, size_bytes: int) -> None:
    """Make a file at least so long; others may do the same, and none makes it shorter."""
    if os.fstat(handle).st_size >= size_bytes:
        return
    with alone(handle):
        if os.fstat(handle).st_size < size_bytes:
            os.ftruncate(handle, size_bytes)


@contextmanager
def alone(handle: int) -> Iterator[None]:
    """Keep all others who ask for the same from a file, by handles of their own."""
    if not SHARES:
        with _only_process:
            yield
        return
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


class FolderLock:
    """Keeps other processes from a folder; one thread at a time uses it."""

    def __init__(self, path: Path) -> None:
        self.handle = open_file(path)
        self._other = None if SHARES else FileLock(path.with_name("guard"))

    def held(self) -> AbstractContextManager[object]:
        """Wait for the lock, and hold it inside the block."""
        return alone(self.handle) if self._other is None else self._other


class UseLock:
    """Says that a folder is in use, for as long as the process lives."""

    def __init__(self, path: Path) -> None:
        self._handle = open_file(path) if SHARES else -1
        self._other = None if SHARES else FileLock(path)
        self._is_held = False

    def hold(self) -> bool:
        """Use the folder; return whether that is possible, beside others who use it."""
        if not self._is_held:
            self._is_held = self._take(alone=False)
        return self._is_held

    def try_alone(self) -> bool:
        """Take the folder for this process alone, until `close`; return whether it is free."""
        return self._take(alone=True)

    def close(self) -> None:
        """Give it up."""
        self._is_held = False
        if self._other is not None:
            self._other.release()
        elif self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def _take(self, *, alone: bool) -> bool:
        try:
            if self._other is not None:
                self._other.acquire(timeout=0)
            else:
                fcntl.flock(
                    self._handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB
                )
        except (OSError, Timeout):
            return False
        return True


class RangeLocks:
    """Locks of numbers in a file. They belong to the process: threads are told apart elsewhere.

    The file must not be opened twice in a process: closing either handle would free all locks.
    """

    def __init__(self, path: Path) -> None:
        self._handle = open_file(path)
        self._shares = SHARES

    def lock(self, first: int, count: int, *, shared: bool = False) -> bool:
        """Lock numbers; return whether no other process has one of them."""
        if not self._shares:
            return True
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.lockf(self._handle, kind | fcntl.LOCK_NB, count, first)
        except OSError:  # Another process has it.
            return False
        return True

    def unlock(self, first: int, count: int) -> None:
        """Free numbers."""
        if self._shares:
            fcntl.lockf(self._handle, fcntl.LOCK_UN, count, first)
