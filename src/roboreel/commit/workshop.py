"""Where the changes of a folder are prepared, and which of its files they may touch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from roboreel.format.paths import FOLDERS, METADATA_FOLDER

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["WORKSHOP", "Workshop"]

WORKSHOP = ".recording"
"""The folder of a dataset where writers work; no reader looks inside."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where the changes of one folder are prepared, and which of its files they may touch.

    Examples:
        >>> from pathlib import Path
        >>> Workshop(Path("arm")).allows("data/file-000.parquet")
        True
        >>> Workshop(Path("arm")).allows("data/../../elsewhere")
        False
    """

    root: Path
    """The folder that changes."""
    name: str = WORKSHOP
    """Folder below ``root`` for the lock, for files in preparation and for the list of steps. It
    must be on the same file system, since files are renamed from there to their places."""
    folders: tuple[str, ...] = FOLDERS
    """Folders below ``root`` whose files may change."""
    index: str = METADATA_FOLDER
    """The one whose files describe the others. What they describe reaches the disk before they
    do."""

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
        return self.path / "commit"

    def allows(self, target: str) -> bool:
        """Whether a commit may change the file at a path below the folder."""
        parts = PurePosixPath(target).parts
        below = len(parts) > 1 and parts[0] in self.folders
        return below and ".." not in parts and "\\" not in target
