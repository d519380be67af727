"""The files that a plan was made from, to be found unchanged when it is applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.errors import StaleDatasetError
from roboreel.files import walk
from roboreel.spans.sources import stat_below

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["State", "state_of"]

_Mark = tuple[int, int]


@dataclass(frozen=True, slots=True)
class State:
    """Size and time of the metadata files and of all files that change."""

    marks: tuple[tuple[str, _Mark | None], ...]
    """By path below the dataset's folder; None for a file that does not exist."""

    def check(self, root: Path) -> None:
        """Raise if a file is not what it was.

        Raises:
            StaleDatasetError: One is not.
        """
        for file, mark in self.marks:
            if _mark(root, file) != mark:
                raise StaleDatasetError(
                    f"{file!r} has changed since the plan was made: plan it again, for "
                    f"{str(root)!r}."
                )


def state_of(root: Path, files: Iterable[str]) -> State:
    """Return the state of the metadata and of some files, by their paths below the folder."""
    metadata = (path for path in walk(root / "meta") if path.is_file())
    every = {path.relative_to(root).as_posix() for path in metadata} | set(files)
    return State(tuple((file, _mark(root, file)) for file in sorted(every)))


def _mark(root: Path, file: str) -> _Mark | None:
    try:
        found = stat_below(root, file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
