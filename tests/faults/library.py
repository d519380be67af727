"""The library that sees and spoils calls: compiled when it is needed, and steered by ctypes."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Call",
    "Kind",
    "Operation",
    "arm",
    "build",
    "calls_made",
    "can_build",
    "note",
    "read_log",
]

SOURCE = Path(__file__).with_name("inject.c")


class Operation(IntEnum):
    """What a call does to a file or a folder."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    RENAME = 4
    UNLINK = 5
    MKDIR = 6
    RMDIR = 7
    LINK = 8
    SYMLINK = 9
    SYNC = 10
    NOTE = 11
    GROW = 12


class Kind(IntEnum):
    """What happens at the chosen call."""

    NOTHING = 0
    KILL = 1
    TORN = 2
    """Half of a write, then the end."""
    EIO = 3
    ENOSPC = 4
    SHORT = 5
    """Half of a write, and success: the caller has to write the rest."""
    FULL = 6
    """From here on the disk is full: what needs room fails, the rest works."""
    BROKEN = 7
    """From here on every call fails."""
    INTERRUPT = 8
    """Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the log; paths are absolute."""

    operation: Operation
    ok: bool
    path: str
    """What is changed; for a note, its text."""
    other: str
    """Where a rename or a link leads, or what a symbolic link says."""
    inode: int
    offset: int
    """Where data is written; the length that a file is cut or grown to."""
    data: bytes


_HEAD = struct.Struct("<BBHHHQqQ")


def read_log(path: Path) -> Iterator[Call]:
    """Yield the calls of a log; what a process that died was writing is left out."""
    data, place = path.read_bytes() if path.exists() else b"", 0
    while place + _HEAD.size <= len(data):
        operation, ok, first, second, _, inode, offset, length = _HEAD.unpack_from(data, place)
        start = place + _HEAD.size
        place = start + first + second + length
        if place > len(data):
            return
        path_1 = os.fsdecode(data[start : start + first])
        path_2 = os.fsdecode(data[start + first : start + first + second])
        content = data[start + first + second : place]
        yield Call(Operation(operation), bool(ok), path_1, path_2, inode, offset, content)


def can_build() -> bool:
    """Whether this system has what the library needs."""
    return sys.platform == "linux" and shutil.which("gcc") is not None


def build(folder: Path) -> Path:
    """Compile the library into a folder, and return its path, for ``LD_PRELOAD``."""
    path = folder / "inject.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(path), str(SOURCE), "-ldl", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True)
    return path


def arm(folder: Path, log: Path, kind: Kind, call: int) -> None:
    """Begin to watch a folder, and spoil the n-th call; 0 spoils none."""
    ctypes.CDLL(None).faults_arm(
        os.fsencode(folder.resolve()), os.fsencode(log), int(kind), ctypes.c_long(call)
    )


def calls_made() -> int:
    """Return how many calls were seen since `arm`."""
    count = ctypes.CDLL(None).faults_count
    count.restype = ctypes.c_long
    return int(count())


def note(text: str) -> None:
    """Write a note into the log: what the process has been told until then."""
    ctypes.CDLL(None).faults_note(text.encode())
