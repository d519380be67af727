"""The bytes of one mirrored file: a sparse file in which evicted bytes are holes again."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import TYPE_CHECKING

from roboreel.errors import MirrorError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SparseFile", "poison"]

_PUNCH_AND_KEEP_SIZE = 0x03
_NO_HOLES = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

poison: list[bytes] = []
"""Tests put a byte here: new files are filled with it, and so is what is evicted, in place of holes.
Whoever reads a byte that was not fetched then sees it."""


class SparseFile:
    """One file, open; made when it is first needed, with nothing but a hole."""

    __slots__ = ("_handle", "_path", "_size_bytes")

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path = path
        self._size_bytes = size_bytes
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if os.fstat(self._handle).st_size < size_bytes:
                os.ftruncate(self._handle, size_bytes)
                if poison:
                    _fill(self._handle, 0, size_bytes)
        except OSError as error:
            raise MirrorError(_cannot("opened", error, path)) from error

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``; less if the file is being evicted."""
        data = os.pread(self._handle, stop - start, start)
        while len(data) < stop - start:
            more = os.pread(self._handle, stop - start - len(data), start + len(data))
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
                written = os.pwrite(self._handle, data, start)
                data, start = data[written:], start + written
        except OSError as error:
            raise MirrorError(_cannot("written", error, self._path)) from error

    def punch(self, start: int, stop: int) -> bool:
        """Remove the bytes ``[start, stop)``; return whether the file system can do that."""
        if poison:
            _fill(self._handle, start, min(stop, self._size_bytes))
            return True
        return _punch(self._handle, start, stop - start)

    def empty(self) -> None:
        """Remove all bytes."""
        os.ftruncate(self._handle, 0)
        os.ftruncate(self._handle, self._size_bytes)

    def close(self) -> None:
        """Let go of the file."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", -1) >= 0:
            self.close()


def _fill(handle: int, start: int, stop: int) -> None:
    os.pwrite(handle, poison[0] * (stop - start), start)


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
