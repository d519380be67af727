"""A change that can be undone, as it is written down."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError
from roboreel.format.edits import FileEdit
from roboreel.io.reading import read_file
from roboreel.io.states import FileState

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.format.edits import How


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
class FileChange:
    """What became of one file; paths are below the dataset's folder."""

    path: str
    before: FileState | None
    """The old file, which is kept; None if there was none."""
    after: FileState | None
    """The new file; None if the old one was removed."""
    moved_from: str | None = None
    """Where the file was before, if it only moved."""

    @property
    def undoing(self) -> FileEdit:
        """What an undo does to the file."""
        state = self.before or self.after
        size = 0 if state is None else state.size_bytes
        if self.moved_from is not None:
            return FileEdit(self.moved_from, size_bytes=size, how="moved", source=self.path)
        how: How = "removed" if self.before is None else "restored"
        return FileEdit(self.path, size_bytes=size, how=how)


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

    @property
    def undoing(self) -> tuple[FileEdit, ...]:
        """What an undo does to each file."""
        return tuple(file.undoing for file in self.files)

    def to_json(self) -> str:
        """Return the change as it is written down."""
        return json.dumps({**asdict(self), "kept_bytes": self.kept_bytes}, indent=1)


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
