"""The bytes of one mirrored file: a sparse file in which evicted bytes are holes again.

Not all file systems have holes, and not all of those can make one where bytes were: see `DiskAbility`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.errors import MirrorError
from roboreel.mirror.locks import open_file

if TYPE_CHECKING:
    from pathlib import Path

_PUNCH_AND_KEEP_SIZE = 0x03
_NO_HOLES = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_PROBE_BYTES = 2**20
_CAN_READ_AT = hasattr(os, "pread")
_seeking = threading.Lock()
"""Windows moves to a place and reads there, in two steps."""


@dataclass(frozen=True, slots=True)
class DiskAbility:
    """What a file system can do with parts of files that have no bytes."""

    is_sparse: bool
    """They take no room. Otherwise files are fetched and kept whole."""
    can_punch: bool
    """They can be made where bytes were. Otherwise all bytes of a file go together."""


def find_ability(handle: int) -> DiskAbility:
    """Find out what the file system of an open file can do, by making it longer than what it holds.

    Only the first bytes of the file may be in use.
    """
    try:
        if os.fstat(handle).st_size < _PROBE_BYTES:
            os.ftruncate(handle, _PROBE_BYTES)
        taken = getattr(os.fstat(handle), "st_blocks", None)  # not on Windows
        is_sparse = taken is not None and taken * 512 < _PROBE_BYTES // 2
        last = _PROBE_BYTES // 2
        return DiskAbility(is_sparse, is_sparse and _punch(handle, last, _PROBE_BYTES - last))
    except OSError:  # It has no room for what would be a hole.
        return DiskAbility(is_sparse=False, can_punch=False)


def stored_bytes(mirror: Path) -> int:
    """Return what the files of a mirror take on the disk, as far as they can be seen."""
    found = 0
    with suppress(OSError):
        for entry in os.scandir(mirror / "bytes"):
            status = entry.stat()
            blocks = getattr(status, "st_blocks", None)  # not on Windows
            found += status.st_size if blocks is None else blocks * 512
    return found


class SparseFile:
    """One file, open; made when it is first needed, and as long as what was written to it."""

    __slots__ = ("_handle", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._handle = open_file(path)
        except OSError as error:
            raise MirrorError(_cannot("opened", error, path)) from error

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``; less if the file is being evicted."""
        data = _read_at(self._handle, stop - start, start)
        while len(data) < stop - start:
            more = _read_at(self._handle, stop - start - len(data), start + len(data))
            if not more:
                break
            data += more
        return data

    def write(self, start: int, data: memoryview) -> None:
        """Write bytes.

        Raises:
            MirrorError: The disk has no space left.
        """
        try:
            while data:
                written = _write_at(self._handle, data, start)
                data, start = data[written:], start + written
        except OSError as error:
            raise MirrorError(_cannot("written", error, self._path)) from error

    def punch(self, start: int, stop: int) -> None:
        """Remove the bytes ``[start, stop)``, on a file system that can do that."""
        if not _punch(self._handle, start, stop - start):
            raise MirrorError(f"No hole can be made in a file of the mirror: {str(self._path)!r}.")

    def empty(self) -> None:
        """Remove all bytes."""
        os.ftruncate(self._handle, 0)

    def close(self) -> None:
        """Let go of the file."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", -1) >= 0:
            self.close()


def _read_at(handle: int, count: int, start: int) -> bytes:
    if _CAN_READ_AT:
        return os.pread(handle, count, start)
    with _seeking:
        os.lseek(handle, start, os.SEEK_SET)
        return os.read(handle, count)


def _write_at(handle: int, data: memoryview, start: int) -> int:
    if _CAN_READ_AT:
        return os.pwrite(handle, data, start)
    with _seeking:
        os.lseek(handle, start, os.SEEK_SET)
        return os.write(handle, data)


def _punch(handle: int, start: int, count: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_int(handle), ctypes.c_int(_PUNCH_AND_KEEP_SIZE))
    if libc.fallocate64(*arguments, ctypes.c_int64(start), ctypes.c_int64(count)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_HOLES:
        return False
    raise OSError(number, os.strerror(number))


def _cannot(done: str, error: OSError, path: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            "The disk of the mirror has no space left. Free some, give a smaller mirror_limit=, or "
            f"another folder as mirror=: {str(path)!r}."
        )
    return f"A file of the mirror cannot be {done} ({error.strerror}): {str(path)!r}."
