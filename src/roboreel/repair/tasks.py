"""Repairs of a missing table of tasks, from the episodes that have a single task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.format.counters import TASK_NUMBER
from roboreel.format.episode_table import add_tasks
from roboreel.format.paths import tasks_path

if TYPE_CHECKING:
    from roboreel.repair.draft import Draft


def cure_missing_tasks(draft: Draft) -> None:
    """Find the number of each task in the rows of episodes that have only one."""
    file = tasks_path(draft.manifest.version)
    found = [one for one in draft.asked("RR111") if one.file == file]
    if not found:
        return
    episodes = draft.manifest.episodes
    said: dict[int, set[str]] = {}
    for data in draft.data_files():
        column, spans = data.counters.get(TASK_NUMBER), data.spans
        if column is None or column.values is None:
            continue
        for position, start, stop in zip(
            spans.position.tolist(), spans.start.tolist(), spans.stop.tolist(), strict=True
        ):
            texts = episodes.tasks_of(position)
            numbers = np.unique(column.values[start:stop])
            if len(texts) == 1 and len(numbers) == 1:
                said.setdefault(int(numbers[0]), set()).add(texts[0])
    # What two episodes call differently stays unknown.
    draft.new_tasks |= {n: next(iter(texts)) for n, texts in said.items() if len(texts) == 1}
    if draft.new_tasks:
        draft.cure(found)


def write_new_tasks(draft: Draft) -> None:
    """Write the tasks that were found."""
    edit = add_tasks(draft.context.manifest, draft.new_tasks)
    draft.write(edit, draft.codes("RR111", "RR207", "RR209"))
