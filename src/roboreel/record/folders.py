"""Where a new dataset may be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.commit import Workshop
from roboreel.errors import RecordingError
from roboreel.format.paths import METADATA_FOLDER, info_path

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_absent", "check_free"]


def check_free(root: Path) -> None:
    """Raise if a dataset cannot be made at a path, because something is there.

    Raises:
        RecordingError: It is a file, or a folder that is not empty.
    """
    if not root.exists():
        return
    # A process that died while it made the dataset leaves these, and no info.json.
    ours = set() if info_path(root).exists() else {Workshop(root).name, METADATA_FOLDER}
    if not root.is_dir() or any(entry.name not in ours for entry in root.iterdir()):
        raise RecordingError(
            f"{str(root)!r} already exists: choose a new folder, or add to a dataset with "
            f"resume_dataset({str(root)!r})."
        )


def check_absent(root: Path) -> None:
    """Raise if a whole dataset cannot be moved to a path, because something is there.

    Raises:
        RecordingError: It is a file, or a folder that is not empty.
    """
    check_free(root)
    if root.exists() and any(root.iterdir()):
        raise RecordingError(
            f"{str(root)!r} holds the beginnings of a dataset, left by a process that died: remove "
            "the folder, or choose a new one."
        )
