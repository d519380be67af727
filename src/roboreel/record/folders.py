"""Where a new dataset may be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.commit import Workshop, has_commit
from roboreel.errors import DatasetError, FolderTakenError
from roboreel.format import read_manifest
from roboreel.format.paths import METADATA_FOLDER, info_path
from roboreel.record.episode import ROWS, open_folder
from roboreel.record.journal import read_records

if TYPE_CHECKING:
    from pathlib import Path


def check_free(root: Path) -> None:
    """Raise if a dataset cannot be made at a path, because something is there.

    Raises:
        FolderTakenError: It is a file, or a folder in which there is anything but the beginnings of a
            dataset.
    """
    if not root.exists():
        return
    ours = {Workshop(root).name, METADATA_FOLDER}
    if (
        not root.is_dir()
        or any(entry.name not in ours for entry in root.iterdir())
        or not _is_blank(root)
    ):
        raise FolderTakenError(
            f"{str(root)!r} already exists: choose a new folder, or add to a dataset with "
            f"resume_dataset({str(root)!r})."
        )


def check_absent(root: Path) -> None:
    """Raise if a whole dataset cannot be moved to a path, because something is there.

    Raises:
        FolderTakenError: It is a file, or a folder that is not empty.
    """
    check_free(root)
    if root.exists() and any(root.iterdir()):
        raise FolderTakenError(
            f"{str(root)!r} holds a dataset in which nothing was recorded: remove the folder, or "
            "choose a new one."
        )


def _is_blank(root: Path) -> bool:
    """Whether a folder holds no more than a recorder leaves that ended before its first frame."""
    if not info_path(root).exists():
        return True
    try:
        saved = len(read_manifest(root).episodes)
    except DatasetError:
        return False  # Somebody's dataset, though a damaged one.
    # A commit that is not finished may be the first episode.
    return not saved and not has_commit(Workshop(root)) and not _has_frames(root)


def _has_frames(root: Path) -> bool:
    rows = open_folder(root) / ROWS
    # The first record describes the others.
    return rows.exists() and len(read_records(rows)[0]) > 1
