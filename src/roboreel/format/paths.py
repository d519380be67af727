"""Where the files of a dataset lie, below its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "FOLDERS",
    "INFO_PATH",
    "METADATA_FOLDER",
    "STATS_PATH",
    "SUBTASKS_PATH",
    "TASKS_PATH",
    "info_path",
]

METADATA_FOLDER = "meta"
"""The folder that describes the others."""
FOLDERS = ("data", "videos", METADATA_FOLDER)
"""All folders of a dataset whose paths are LeRobot's own."""

INFO_PATH = "meta/info.json"
STATS_PATH = "meta/stats.json"
TASKS_PATH = "meta/tasks.parquet"
SUBTASKS_PATH = "meta/subtasks.parquet"


def info_path(root: Path) -> Path:
    """Return where a dataset's info.json lies."""
    return root / INFO_PATH
