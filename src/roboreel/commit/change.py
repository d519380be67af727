"""A change that can be undone, as it is written down."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError
from roboreel.files import sha256_of
from roboreel.spans.reading import read_file

if TYPE_CHECKING:
    import os
    from pathlib import Path

__all__ = ["Change", "FileChange", "FileState", "PastChange", "file_state", "parse_change"]

# Larger files are known by size and time alone: nobody reads terabytes again to undo an edit.
_MOST_HASHED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """What a command says of the change that it makes."""

    command: str
    """Name of the command, such as ``"repair"``."""
    summary: str
    """What it does, in a line."""
    undoable: bool = True
    """Whether old files are kept. If not, those of earlier changes are deleted too: nothing of
    what the change removes remains."""


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


@dataclass(frozen=True, slots=True)
class FileChange:
    """What became of one file; paths are below the dataset's folder."""

    path: str
    before: FileState | None
    """The old file, which is kept; None if there was none."""
    after: FileState | None
    """The new file; None if the old one was removed."""
    moved_from: str | None = None
    """Where the file was before, if it only moved."""


@dataclass(frozen=True, slots=True)
class PastChange:
    """A change that was made, and that can be undone."""

    number: int
    command: str
    summary: str
    time: str
    """When it was made, in UTC."""
    roboreel: str
    """Version that made it."""
    files: tuple[FileChange, ...]
    head: FileState | None
    """The dataset's info.json after the change, also if it is not among the files."""

    @property
    def kept_bytes(self) -> int:
        """Bytes of the old files that are kept."""
        return sum(file.before.size_bytes for file in self.files if file.before is not None)

    def to_json(self) -> str:
        """Return the change as it is written down."""
        return json.dumps({**asdict(self), "kept_bytes": self.kept_bytes}, indent=1)


def file_state(found: os.stat_result, path: Path | None = None) -> FileState:
    """Return the state of a file; with a path, its bytes are read if it is not large."""
    read = path is not None and found.st_size <= _MOST_HASHED_BYTES
    return FileState(
        found.st_size, found.st_mtime_ns, sha256_of(path) if read and path is not None else None
    )


def parse_change(path: Path, number: int) -> PastChange:
    """Return a change that was written down, in the folder of its number.

    Raises:
        CorruptFileError: It cannot be read.
    """
    try:
        read = json.loads(read_file(path, "list of changes"))
        texts = {key: str(read[key]) for key in ("command", "summary", "time", "roboreel")}
        files = tuple(_parse_file(file) for file in read["files"])
        head = _parse_state(read["head"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptFileError(
            "What a change left cannot be read, so it cannot be undone. Free its space with "
            f"`roboreel history --purge`: {str(path)!r}."
        ) from error
    return PastChange(number, **texts, files=files, head=head)


def _parse_file(read: dict[str, Any]) -> FileChange:
    path, moved_from = read["path"], read["moved_from"]
    if not isinstance(path, str) or not isinstance(moved_from, str | None):
        raise TypeError(path)
    return FileChange(path, _parse_state(read["before"]), _parse_state(read["after"]), moved_from)


def _parse_state(read: dict[str, Any] | None) -> FileState | None:
    return None if read is None else FileState(**read)
