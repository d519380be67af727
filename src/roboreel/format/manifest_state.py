"""What tells that the dataset in a folder has changed, without reading it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roboreel.format.paths import CHANGES_FOLDER, DECIDED_FOLDER, INFO_PATH
from roboreel.schema import ManifestState

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ManifestFiles"]


class ManifestFiles:
    """The files of a dataset that are looked at; by name, since a `Path` takes longer."""

    def __init__(self, root: Path) -> None:
        self._info = str(root / INFO_PATH)
        self._changes = str(root / CHANGES_FOLDER)
        self._decided = str(root / DECIDED_FOLDER)

    def state(self) -> ManifestState | None:
        """Return the present state; None if there is no dataset."""
        info = self.info()
        return None if info is None else ManifestState(info, _time(self._changes), self.decided())

    def info(self) -> tuple[int, int] | None:
        """Return size and time of info.json."""
        try:
            found = os.stat(self._info)  # noqa: PTH116
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    def decided(self) -> int | None:
        """Return the time of a change that is being carried out, if there is one."""
        return _time(self._decided)


def _time(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116
    except OSError:
        return None
