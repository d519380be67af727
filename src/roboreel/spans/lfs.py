"""Git LFS pointers: small texts that Git leaves in place of files it has not fetched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LFS_ADVICE", "MOST_POINTER_BYTES", "is_lfs_pointer", "starts_as_pointer"]

LFS_ADVICE = "is a Git LFS pointer, not the file itself. Run `git lfs pull` in the dataset"
"""What to say of one, after the noun."""
MOST_POINTER_BYTES = 1024
_START = b"version https://git-lfs.github.com/spec/"


def starts_as_pointer(handle: int) -> bool:
    """Return whether an open file begins as a pointer does; its position does not matter after."""
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, len(_START)) == _START


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file is a pointer; one that cannot be opened is not."""
    try:
        if path.stat().st_size > MOST_POINTER_BYTES:
            return False
        with path.open("rb") as file:
            return file.read(len(_START)) == _START
    except OSError:
        return False
