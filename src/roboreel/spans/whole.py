"""Files handed to libraries that read them on their own: pyarrow and FFmpeg."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roboreel.spans.handles import open_to_read

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["arrow_file", "whole_file"]


def arrow_file(path: Path) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return a file that pyarrow reads from.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, or cannot be opened.
    """
    return pa.OSFile(whole_file(path))


def whole_file(path: Path, noun: str = "file") -> str:
    """Return the name under which a library finds all bytes of a file.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, or cannot be opened.
    """
    handle, _ = open_to_read(path, noun)
    os.close(handle)
    return str(path)
