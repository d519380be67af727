"""Files handed to libraries that read them on their own: pyarrow and FFmpeg."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roboreel.spans.handles import open_to_read

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["arrow_file", "whole_file"]


def arrow_file(path: Path, *, is_mapped: bool = False) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return a file that pyarrow reads from.

    Args:
        path: The file.
        is_mapped: Whether pyarrow reads through a map. That takes less memory in a single pass,
            since Arrow otherwise keeps the bytes that it has read.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, or cannot be opened.
    """
    name = whole_file(path)
    return pa.memory_map(name) if is_mapped else pa.OSFile(name)


def whole_file(path: Path, noun: str = "file") -> str:
    """Return the name under which a library finds all bytes of a file.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, or cannot be opened.
    """
    handle, _ = open_to_read(path, noun)
    os.close(handle)
    return str(path)
