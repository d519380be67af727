"""The known files of a remote dataset: a table that only grows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from roboreel.errors import MirrorError
from roboreel.mirror.geometry import count_segments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Datasets have hundreds of terabytes; what says which blocks are there grows with their size.
_MOST_BYTES = 2**50


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What a store says of one file."""

    name: str
    """Its path below the dataset, with forward slashes."""
    size_bytes: int
    etag: str | None = None
    """A strong ETag, or another text that changes with the content; None if there is none."""
    modified_ns: int = 0


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of the mirror."""

    file: RemoteFile
    number: int
    segment: int
    """The number of its first segment, among those of all files."""

    @property
    def num_segments(self) -> int:
        """How many segments the file has."""
        return count_segments(self.file.size_bytes)


class FileTable:
    """The table on disk: a JSON object per line. Lines are added under the lock of the mirror."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._entries: dict[str, FileEntry] = {}
        self._numbered: list[FileEntry] = []
        self.num_segments = 0
        """Segments of all files."""
        self.refresh()

    def __len__(self) -> int:
        return len(self._numbered)

    def __getitem__(self, number: int) -> FileEntry:
        return self._numbered[number]

    def find(self, name: str) -> FileEntry | None:
        """Return a file by its name; None if it is not known."""
        return self._entries.get(name)

    def names(self) -> list[str]:
        """Return the names of all files."""
        return list(self._entries)

    def refresh(self) -> None:
        """Read the lines that were added since."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                lines = file.read()
        except FileNotFoundError:
            return
        lines = lines[: lines.rfind(b"\n") + 1]
        self._read_bytes += len(lines)
        try:
            for line in lines.splitlines():
                self._take(RemoteFile(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise MirrorError(
                f"The mirror's table of files is damaged ({error}). Remove the mirror with "
                f"`roboreel mirror prune`: {str(self._path)!r}."
            ) from error

    def add(self, files: Sequence[RemoteFile]) -> None:
        """Add files that are not known yet; the caller holds the lock of the mirror.

        Raises:
            MirrorError: They are larger than any dataset: a server may say so.
        """
        self.refresh()
        new = [file for file in files if file.name not in self._entries]
        if sum(file.size_bytes for file in new) > _MOST_BYTES:
            raise MirrorError(
                f"The remote files have more than {_MOST_BYTES:,} bytes, the largest of them "
                f"{max(new, key=lambda file: file.size_bytes).name!r}."
            )
        with self._path.open("ab") as table:
            table.truncate(self._read_bytes)  # A line that a killed process left unfinished.
            text = "".join(f"{json.dumps(asdict(file))}\n" for file in new).encode()
            table.write(text)
        self._read_bytes += len(text)
        for file in new:
            self._take(file)

    def _take(self, file: RemoteFile) -> None:
        entry = FileEntry(file, len(self._numbered), self.num_segments)
        self._entries[file.name] = entry
        self._numbered.append(entry)
        self.num_segments += entry.num_segments
