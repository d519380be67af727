"""Whether the dataset in a folder has changed, or is being changed, without reading it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from roboreel.errors import CorruptFileError, MissingFileError, UnfinishedChangeError
from roboreel.format.paths import CHANGES_FOLDER, DECIDED_FOLDER, INFO_PATH, STEPS_PATH
from roboreel.io.reading import read_file
from roboreel.schema import ManifestState

# A writer that has decided moves one file after the other within this time, unless it died.
_PATIENCE_S, _PAUSE_S = 10.0, 0.01


class ManifestFiles:
    """The files of a dataset that are looked at; by name, since a `Path` takes longer."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._info = str(root / INFO_PATH)
        self._changes = str(root / CHANGES_FOLDER)
        self._moving = str(root / DECIDED_FOLDER)
        self._decided = str(root / STEPS_PATH)

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
        """Return the time of a commit that was decided and is not finished, if there is one."""
        return _time(self._decided)

    def settle(self) -> None:
        """Wait until an edit, a repair or an undo is carried out, if one is.

        In between, rows of the new dataset may lie beside images of the old one. Episodes that are
        added, and files that are joined, are not waited for: between any two of their steps, all
        that is listed is in its place.

        Raises:
            UnfinishedChangeError: It was not carried out in time; its process may have died.
        """
        while (found := self.decided()) is not None and (what := self._change()) is not None:
            moving, since_s = None, time.monotonic()
            while self.decided() == found:
                if (now := _time(self._moving)) != moving:
                    moving, since_s = now, time.monotonic()
                elif time.monotonic() - since_s >= _PATIENCE_S:
                    raise UnfinishedChangeError(
                        f"{what} was decided and not finished, so files of the old dataset lie "
                        "beside files of the new one, and none is read. If its process is still at "
                        "work, wait for it; if not, finish it, in a copy where the disk cannot be "
                        f"written to: `roboreel recover {self._root}`."
                    )
                time.sleep(_PAUSE_S)

    def _change(self) -> str | None:
        """Return what is being changed, and since when; None if nothing is, or files only come."""
        try:
            listed = json.loads(read_file(Path(self._decided), "list of steps"))
            if isinstance(listed, list):  # until 0.1, episodes that were added
                return None
            change, when = listed["change"], listed["time"]
        except MissingFileError:
            return None
        except (CorruptFileError, OSError, ValueError, TypeError, KeyError, RecursionError):
            return "A change"
        return None if change is None else f"The change {change!r} of {when!r}"


def _time(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116
    except OSError:
        return None
