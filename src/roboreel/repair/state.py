"""The files that a plan was made from, to be found unchanged when it is applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.errors import StaleDatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from roboreel.repair.changes import PlannedChange

__all__ = ["State", "read_state"]

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
            if _mark(root / file) != mark:
                raise StaleDatasetError(
                    f"{file!r} has changed since the repair was planned: plan it again, for "
                    f"{str(root)!r}."
                )


def read_state(root: Path, changes: Iterable[PlannedChange]) -> State:
    """Return the state of the files that a plan depends on."""
    metadata = (path for path in (root / "meta").rglob("*") if path.is_file())
    files = {path.relative_to(root).as_posix() for path in metadata}
    for change in changes:
        files |= {change.file, *([] if change.source is None else [change.source])}
    return State(tuple((file, _mark(root / file)) for file in sorted(files)))


def _mark(path: Path) -> _Mark | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
