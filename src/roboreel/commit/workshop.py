"""Where the changes of a folder are prepared, and which of its files they may touch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from roboreel.format.paths import (
    CHANGES_FOLDER,
    DECIDED_FOLDER,
    FOLDERS,
    INFO_PATH,
    METADATA_FOLDER,
    STORE,
    WORKSHOP,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["STORE", "WORKSHOP", "Workshop"]

# Of a dataset, readers look at them: see `roboreel.format.manifest_state`.
_DECIDED = DECIDED_FOLDER.removeprefix(f"{WORKSHOP}/")
_UNDO = CHANGES_FOLDER.removeprefix(f"{STORE}/")
# A folder of videos by camera and chunk has four parts; more than this is no dataset.
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where the changes of one folder are prepared, and which of its files they may touch.

    Examples:
        >>> from pathlib import Path
        >>> Workshop(Path("arm")).allows("data/file-000.parquet")
        True
        >>> Workshop(Path("arm")).allows("data/../../elsewhere.parquet")
        False
    """

    root: Path
    """The folder that changes."""
    name: str = WORKSHOP
    """Folder below ``root`` for the lock, for files in preparation and for the list of steps. It
    must be on the same file system, since files are renamed from there to their places."""
    store: str = STORE
    """Folder below ``root`` for old files that are kept."""
    folders: tuple[str, ...] = FOLDERS
    """Folders below ``root`` whose files may change."""
    suffixes: tuple[str, ...] = (".json", ".jsonl", ".mp4", ".parquet")
    """How the names of files that may change end."""
    index: str = METADATA_FOLDER
    """The one whose files describe the others. What they describe reaches the disk before they
    do."""
    head: str = INFO_PATH
    """The file that every writer replaces: as long as it is the same, so is the dataset."""

    @property
    def path(self) -> Path:
        """The workshop's own folder."""
        return self.root / self.name

    @property
    def staged(self) -> Path:
        """Where files wait for the decision."""
        return self.path / "staged"

    @property
    def decided(self) -> Path:
        """Where files wait to be moved to their places, beside the list of steps."""
        return self.path / _DECIDED

    @property
    def undo(self) -> Path:
        """Where old files are kept, a folder per change."""
        return self.root / self.store / _UNDO

    def decided_path(self, staged: str) -> str:
        """Return the path below ``root`` of a file that waits to be moved."""
        return f"{self.name}/{_DECIDED}/{staged}"

    def kept_path(self, number: int, target: str) -> str:
        """Return the path below ``root`` where a change keeps the old file of a target."""
        return f"{self.store}/{_UNDO}/{number}/files/{target}"

    def change_path(self, number: int) -> str:
        """Return the path below ``root`` of what is written down about a change."""
        return f"{self.store}/{_UNDO}/{number}/change.json"

    def allows(self, target: str) -> bool:
        """Whether a commit may write or remove the file at a path below the folder."""
        return self.allows_move(target) and target.split("/", 1)[0] in self.folders

    def allows_move(self, path: str) -> bool:
        """Whether a commit may move a file from or to a path below the folder.

        More than `allows`: a file may lie in a folder of the wrong name, such as ``video``.
        """
        parts = path.split("/")
        plain = all(part and not part.startswith(".") and part.isprintable() for part in parts)
        shaped = 1 < len(parts) <= _DEEPEST and PurePosixPath(path).suffix in self.suffixes
        return plain and shaped and "\\" not in path and ":" not in path

    def allows_store(self, path: str) -> bool:
        """Whether a path below the folder is one of an old file, or of what was set aside."""
        store = re.escape(self.store)
        found = re.fullmatch(rf"{store}/(?:undo/\d{{1,9}}/files|aside)/(.+)", path)
        return found is not None and self.allows_move(found[1])

    def is_change(self, path: str) -> bool:
        """Whether a path below the folder is of what is written down about a change."""
        return (
            re.fullmatch(rf"{re.escape(self.store)}/undo/\d{{1,9}}/change\.json", path) is not None
        )
