"""Whether files are still what they were: by size and time, or by their bytes."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.errors import StaleDatasetError
from roboreel.files import open_regular, sha256_of, walk
from roboreel.io.sources import source_of, stat_below

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# Larger files are known by size and time alone: nobody reads terabytes again to undo an edit.
_MOST_HASHED_BYTES = 64 << 20
_WHOLE_BYTES, _END_BYTES = 2**20, 2**16


def state_of(path: Path) -> tuple[int, int]:
    """Return size and time of a file, which change when the file does.

    Raises:
        OSError: There is no such file.
    """
    source = source_of(path)
    size = None if source is None else source.size_of(path)  # This may ask for the file.
    status = path.stat()
    return status.st_size if size is None else size, status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class FileState:
    """By what a file is recognised."""

    size_bytes: int
    mtime_ns: int
    sha256: str | None = None
    """Only of new files that are not large."""

    def __post_init__(self) -> None:
        for value in (self.size_bytes, self.mtime_ns):
            if type(value) is not int or abs(value) >= 2**63:
                raise TypeError(f"Not a size or a time: {value!r}.")

    def matches(self, found: os.stat_result, path: Path) -> bool:
        """Whether a file is as it was; its bytes are read only if a copy changed its time."""
        if found.st_size != self.size_bytes:
            return False
        return found.st_mtime_ns == self.mtime_ns or (
            self.sha256 is not None and sha256_of(path) == self.sha256
        )


def file_state(found: os.stat_result, path: Path | None = None) -> FileState:
    """Return the state of a file; with a path, its bytes are read if it is not large."""
    read = path is not None and found.st_size <= _MOST_HASHED_BYTES
    return FileState(
        found.st_size, found.st_mtime_ns, sha256_of(path) if read and path is not None else None
    )


@dataclass(frozen=True, slots=True)
class FolderState:
    """Size and time of the files that a plan was made from, to be found unchanged later."""

    root: Path
    """The folder."""
    marks: tuple[tuple[str, tuple[int, int] | None], ...]
    """By path below the folder; None for a file that does not exist."""

    def check(self) -> None:
        """Raise if a file is not what it was.

        Raises:
            StaleDatasetError: One is not.
        """
        for file, mark in self.marks:
            if _mark(self.root, file) != mark:
                raise StaleDatasetError(
                    f"{file!r} has changed since the plan was made: plan it again, for "
                    f"{str(self.root)!r}."
                )


def folder_state(root: Path, files: Iterable[str], *, whole: str) -> FolderState:
    """Return the state of files of a folder.

    Args:
        root: The folder.
        files: Paths of files below it.
        whole: A folder below it of which every file counts.
    """
    inside = (path for path in walk(root / whole) if path.is_file())
    every = {path.relative_to(root).as_posix() for path in inside} | set(files)
    return FolderState(root, tuple((file, _mark(root, file)) for file in sorted(every)))


def digest_of(states: Iterable[FolderState]) -> str:
    """Return a short text that is another one if any file has changed."""
    digest = hashlib.sha256()
    for state in states:
        digest.update(json.dumps(state.marks).encode())
    return digest.hexdigest()


def size_and_digest(path: Path) -> list[int | str]:
    """Return the size and a digest of a file, which change when the file is replaced.

    Of a large file, only both ends are hashed. The time is left out: a file server may set it
    after the file was closed.
    """
    with open(open_regular(path)[0], "rb") as file:  # noqa: PTH123  # a handle, not a path
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        data = file.read(_END_BYTES if size > _WHOLE_BYTES else size)
        if size > _WHOLE_BYTES:
            file.seek(-_END_BYTES, os.SEEK_END)
            data += file.read()
    return [size, hashlib.sha256(data).hexdigest()]


def _mark(root: Path, file: str) -> tuple[int, int] | None:
    try:
        found = stat_below(root, file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
