"""Git LFS pointers: small texts that Git leaves in place of files it has not fetched."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from roboreel.errors import MissingFileError
from roboreel.io.sources import source_of

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.io.sources import SpanSource

LFS_ADVICE = "is a Git LFS pointer, not the file itself. Run `git lfs pull` in the dataset"
"""What to say of one, after the noun."""
MOST_POINTER_BYTES = 1024
_START = b"version https://git-lfs.github.com/spec/"


def starts_as_pointer(handle: int) -> bool:
    """Return whether a file that was just opened begins as a pointer does; it is at its beginning then."""
    start = os.read(handle, len(_START))
    os.lseek(handle, 0, os.SEEK_SET)
    return start == _START


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file is a pointer; one that cannot be opened is not."""
    source = source_of(path)
    if source is not None:
        size = source.size_of(path)
        return size is not None and size <= MOST_POINTER_BYTES and _starts_so(source, path)
    try:
        status = path.stat()
        # Only regular files: opening a FIFO would wait for a writer.
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_POINTER_BYTES:
            return False
        with path.open("rb") as file:
            return file.read(len(_START)) == _START
    except OSError:
        return False


def _starts_so(source: SpanSource, path: Path) -> bool:
    try:
        file = source.open(path, "file")
    except MissingFileError:
        return False
    return file.read(0, min(len(_START), file.size_bytes)) == _START
