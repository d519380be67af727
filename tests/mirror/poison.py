"""Mirrors whose files are filled with a byte where nothing was fetched: whoever reads one sees it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roboreel.mirror.folder import MirrorFolder
from roboreel.mirror.holes import SparseFile
from roboreel.mirror.locks import alone

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from roboreel.mirror.file_table import FileEntry

BYTE = b"\xa5"
open_plain = MirrorFolder.open


class PoisonedFile(SparseFile):
    """A file that is filled when it is made, and where it is evicted, in place of holes."""

    __slots__ = ("_size_bytes",)

    def __init__(self, path: Path, size_bytes: int) -> None:
        super().__init__(path)
        self._size_bytes = size_bytes
        if os.fstat(self._handle).st_size < size_bytes:
            self._fill_new()

    def punch(self, start: int, stop: int) -> None:
        stop = min(stop, self._size_bytes)
        self.write(start, memoryview(BYTE * (stop - start)))

    def empty(self) -> None:
        super().empty()
        self._fill_new()

    def _fill_new(self) -> None:
        """Fill the file behind what it holds: another thread or process may have written to it."""
        with alone(self._handle):
            stored = os.fstat(self._handle).st_size
            self.write(stored, memoryview(BYTE * (self._size_bytes - stored)))


def open_poisoned(folder: MirrorFolder, entry: FileEntry) -> PoisonedFile:
    return PoisonedFile(folder.path / "bytes" / str(entry.number), entry.file.size_bytes)


def poison(patch: pytest.MonkeyPatch) -> None:
    """Poison all mirrors of a test."""
    patch.setattr(MirrorFolder, "open", open_poisoned)


def cure(patch: pytest.MonkeyPatch) -> None:
    """Have holes again."""
    patch.setattr(MirrorFolder, "open", open_plain)


def poison_process() -> None:
    """Poison all mirrors of a process that a test started."""
    MirrorFolder.open = open_poisoned  # type: ignore[assignment,method-assign]
