"""What paths hold: one recording, or a folder of several of one kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import SourceError
from roboreel.importing.opening import find_reader
from roboreel.importing.tree_layouts import natural_key

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

__all__ = ["find_sources"]

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_MEDIA = "roboreel.importing.media_folder"


def find_sources(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the recordings that paths hold, in order.

    Args:
        paths: Recordings, or folders of recordings of one kind.

    Raises:
        SourceError: A path holds none, or the recordings are of several kinds.
    """
    found: list[Path] = []
    for path in paths:
        found += _of_path(Path(path).expanduser().absolute())
    kinds = {reader.name for path in found if (reader := find_reader(path)) is not None}
    if len(kinds) > 1:
        raise SourceError(
            f"There are recordings of several kinds, {', '.join(sorted(kinds))}: import one kind at a "
            "time."
        )
    if len(set(found)) < len(found):
        raise SourceError("A recording is named twice: name each of them once.")
    return found


def _of_path(path: Path) -> list[Path]:
    if not path.exists():
        raise SourceError(f"There is nothing to import at {str(path)!r}.")
    reader = find_reader(path)
    if path.is_file() or (reader is not None and reader.module != _MEDIA):
        return [path]
    inside = sorted(
        (p for p in path.iterdir() if not p.name.startswith(".") and _is_recording(p)),
        key=lambda p: natural_key(p.name),
    )
    if len(inside) > 1 and all(_VERSION.fullmatch(p.name) for p in inside):
        listed = ", ".join(p.name for p in inside)
        raise SourceError(f"There are several versions, {listed}: name one of them: {str(path)!r}.")
    if inside:
        return inside
    if reader is None:
        raise SourceError(f"This folder has no recording that can be read: {str(path)!r}.")
    return [path]


def _is_recording(path: Path) -> bool:
    reader = find_reader(path)
    return reader is not None and reader.module != _MEDIA
