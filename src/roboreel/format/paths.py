"""Where the files of a dataset lie, below its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

METADATA_FOLDER = "meta"
"""The folder that describes the others."""
FOLDERS = ("data", "videos", METADATA_FOLDER)
"""All folders of a dataset whose paths are LeRobot's own."""

WORKSHOP = ".recording"
"""The folder of a dataset where writers work."""
DECIDED_FOLDER = f"{WORKSHOP}/commit"
"""Here while files are moved to their places."""
STEPS_PATH = f"{DECIDED_FOLDER}/steps.json"
"""Here until they are; all that readers look for in the folder."""
STORE = ".roboreel"
"""The folder of a dataset for what changes leave behind."""
CHANGES_FOLDER = f"{STORE}/undo"
"""Has a folder for each change that can be undone; readers look at its time alone."""

INFO_PATH = "meta/info.json"
STATS_PATH = "meta/stats.json"
TASKS_PATH = "meta/tasks.parquet"
SUBTASKS_PATH = "meta/subtasks.parquet"
EPISODES_FOLDER = "meta/episodes"
"""The episode table of v3.0."""
EPISODE_LINES_PATH = "meta/episodes.jsonl"
"""Before v3.0, which has the episode table."""
EPISODE_STATS_PATH = "meta/episodes_stats.jsonl"
"""Only in v2.1; v3.0 has the statistics of episodes in the episode table."""
SMALL_NAMES = frozenset(["info.json", "tasks.parquet", "tasks.jsonl", "episodes.jsonl"])
"""Names of the files in ``meta/`` that hold no statistics, and so are small."""
KNOWN_METADATA = (
    INFO_PATH,
    STATS_PATH,
    TASKS_PATH,
    SUBTASKS_PATH,
    EPISODE_LINES_PATH,
    EPISODE_STATS_PATH,
    "meta/tasks.jsonl",
    EPISODES_FOLDER,
)
"""Files and folders of meta/ that we write; others are kept."""


def info_path(root: Path) -> Path:
    """Return where a dataset's info.json lies."""
    return root / INFO_PATH


def tasks_path(version: str) -> str:
    """Return where a dataset of a version lists its tasks."""
    return TASKS_PATH if version.startswith("v3") else "meta/tasks.jsonl"
