"""The list of episodes of a dataset of any version: the one place that chooses its layout."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roboreel.format.edits import ABSENT, Difference, FileEdit
from roboreel.format.lines_v2 import EpisodeLines
from roboreel.format.paths import tasks_path
from roboreel.format.tables_v3 import EpisodeTables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.schema import Manifest

_BYTES_PER_TASK = 80


def episode_list(manifest: Manifest) -> EpisodeLines | EpisodeTables:
    """Return the list of the episodes of a dataset, in the layout of its version."""
    return EpisodeTables(manifest) if manifest.version.startswith("v3") else EpisodeLines(manifest)


def add_tasks(manifest: Manifest, tasks: Mapping[int, str]) -> FileEdit | None:
    """Return how the table of tasks must change to have more tasks; None if there are none to add.

    Args:
        manifest: The dataset. If it has no table of tasks, one is written.
        tasks: Further tasks, by number.
    """
    if not tasks:
        return None
    file = tasks_path(manifest.version)
    differences = tuple(Difference(f"task {n}", ABSENT, text) for n, text in tasks.items())
    write = partial(_append_tasks, manifest, dict(sorted(tasks.items())))
    size = _BYTES_PER_TASK * (len(tasks) + len(manifest.tasks))
    return FileEdit(file, differences, write, size)


def _append_tasks(manifest: Manifest, tasks: Mapping[int, str], root: Path, out: Path) -> None:
    episode_list(manifest).append_tasks(root / tasks_path(manifest.version), out, tasks)
