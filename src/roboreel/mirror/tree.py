"""The folder that stands for a remote dataset: all of its files are there, and empty.

So `glob`, `exists` and the names in errors are right, and a reader that opens such a file by its
name finds no bytes: a hole would look like zeros, and zeros look like numbers.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roboreel.errors import UnsafePathError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roboreel.mirror.file_table import RemoteFile

# Of a name in an object store, and of a part of a name on a disk.
_LONGEST, _LONGEST_PART = 1024, 255


def is_safe(name: str) -> bool:
    """Whether a name stays below the folder, and can be the name of a file here."""
    parts = name.split("/")
    return (
        all(part not in ("", ".", "..") for part in parts)
        and "\0" not in name
        and "\\" not in name
        and len(name) <= _LONGEST
        and max(len(part.encode(errors="replace")) for part in parts) <= _LONGEST_PART
    )


def make_places(tree: Path, files: Sequence[RemoteFile]) -> None:
    """Make an empty file for each remote one, with its time.

    Raises:
        UnsafePathError: A name leads out of the folder.
    """
    made: set[str] = set()
    root = str(tree)
    for file in files:
        if not is_safe(file.name):
            raise UnsafePathError(
                f"A remote file has a name that cannot be used here: {file.name!r}."
            )
        folder = os.path.dirname(f"{root}/{file.name}")  # noqa: PTH120  # there may be 300,000
        if folder not in made:
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            made.add(folder)
        os.close(os.open(f"{root}/{file.name}", os.O_WRONLY | os.O_CREAT, 0o600))
        os.utime(f"{root}/{file.name}", ns=(file.modified_ns, file.modified_ns))
