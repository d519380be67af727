"""Memory that two processes map.

On Linux it is anonymous (``memfd_create``): it has no name that could be left behind, and the size
of ``/dev/shm``, 64 MB in a Docker container, does not limit it. Elsewhere it is a file without a
name, or on Windows a named mapping that ends with its last user.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from multiprocessing import reduction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import uuid4

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# What is left to others on a file system of limited size.
_SPARE_BYTES = 8 * 2**20
_SHM = "/dev/shm"  # a file system in memory; files there have no name here

Ticket: TypeAlias = "int | str"
"""What another process finds the memory by: an open file, or a name."""


class SharedMemoryFullError(OSError):
    """There is no room for more shared memory."""


def make(size_bytes: int) -> tuple[mmap.mmap, Ticket]:
    """Return new memory, all of it present, and the ticket to hand over by `give`.

    Raises:
        SharedMemoryFullError: There is no room: noticed here, since writing to a page that cannot
            be had would end the process.
    """
    if sys.platform == "win32":
        name = f"roboreel-{uuid4()}"
        return mmap.mmap(-1, size_bytes, tagname=name), name
    handle = _open_file(size_bytes)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size_bytes)
        else:
            os.ftruncate(handle, size_bytes)
        return _map(handle, size_bytes), handle
    except OSError as error:
        os.close(handle)
        raise SharedMemoryFullError(
            error.errno, f"No {size_bytes:,} bytes of shared memory could be allocated: {error}"
        ) from error


def give(connection: Connection, ticket: Ticket) -> None:
    """Hand memory over to the process at the other end, which calls `receive`."""
    if isinstance(ticket, str):
        connection.send(ticket)
        return
    reduction.send_handle(connection, ticket, None)
    os.close(ticket)


def discard(ticket: Ticket) -> None:
    """Drop a ticket that is not handed over."""
    if isinstance(ticket, int):
        os.close(ticket)


def receive(connection: Connection, size_bytes: int) -> mmap.mmap:
    """Return the memory that the process at the other end gave."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size_bytes, tagname=connection.recv())
    handle = reduction.recv_handle(connection)
    try:
        return _map(handle, size_bytes)
    finally:
        os.close(handle)


def _map(handle: int, size_bytes: int) -> mmap.mmap:
    if sys.version_info >= (3, 13):  # Before, every mapping keeps a file open.
        return mmap.mmap(handle, size_bytes, trackfd=False)
    return mmap.mmap(handle, size_bytes)


def _open_file(size_bytes: int) -> int:
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("roboreel", os.MFD_CLOEXEC)
        except OSError:  # Forbidden by a sandbox.
            pass
    folder = _SHM if Path(_SHM).is_dir() else tempfile.gettempdir()
    free = _free_bytes(folder)
    if size_bytes > free - _SPARE_BYTES:
        raise SharedMemoryFullError(
            f"A batch needs {size_bytes:,} bytes of shared memory, and {max(0, free):,} bytes are "
            f"free in {folder!r}"
        )
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.dup(file.fileno())


def _free_bytes(folder: str) -> int:
    status = cast("Any", os).statvfs(folder)
    return int(status.f_bavail * status.f_frsize)
