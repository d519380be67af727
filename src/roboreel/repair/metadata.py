"""Repairs of the metadata: info.json, the table of episodes, the table of tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.format.counters import TASK_NUMBER
from roboreel.format.edits import edit_json
from roboreel.format.episode_table import add_tasks
from roboreel.format.info_edits import with_counts, with_version
from roboreel.format.paths import INFO_PATH, tasks_path
from roboreel.format.splits import with_splits
from roboreel.format.tables import with_lengths

if TYPE_CHECKING:
    from roboreel.repair.draft import Draft


def cure_lengths(draft: Draft) -> None:
    """Give episodes the lengths that their data files have."""
    wrong = {one.episode: one for one in draft.asked("RR202")}
    if not wrong:
        return
    episodes = draft.manifest.episodes
    length = episodes.length.copy()
    for file in draft.data_files():
        numbers = episodes.number[file.positions].tolist()
        for position, number in zip(file.positions.tolist(), numbers, strict=True):
            if number not in wrong:
                continue
            start, stop = file.runs[number][0] if file.numbers is not None else (0, file.num_rows)
            length[position] = stop - start
            draft.cure([wrong[number]])
    if not np.array_equal(length, episodes.length):
        table = with_lengths(episodes, length, fps=draft.manifest.fps)
        draft.manifest = replace(draft.manifest, episodes=table)
        draft.episode_kinds |= {"rows", "clips"}


def cure_entries(draft: Draft) -> None:
    """List each episode once, and say which rows it has.

    How the manifest was read is the answer already: by the last entry of each, and by the order of
    the rows.
    """
    found = draft.asked("RR112", "RR114", "RR203")
    if found:
        draft.episode_kinds |= {"rows", "files"}
        draft.cure(found)


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


def cure_version(draft: Draft) -> None:
    """Let info.json name the version that its files have."""
    versions = draft.asked("RR102")
    if versions:
        draft.info = with_version(draft.info, draft.manifest.version)
        draft.cure(versions)


def cure_counts(draft: Draft) -> None:
    """Let info.json count what there is, and its splits end where the episodes do."""
    episodes = draft.manifest.episodes
    counts = draft.asked("RR101")
    if counts or draft.manifest is not draft.context.manifest or draft.new_tasks:
        num_tasks = len({*draft.manifest.tasks, *draft.new_tasks})
        said = {"episodes": len(episodes), "frames": episodes.num_rows}
        draft.info = with_counts(draft.info, said | ({"tasks": num_tasks} if num_tasks else {}))
        draft.cure(counts)
    splits = draft.asked("RR113")
    if splits:
        draft.info = with_splits(draft.info, len(episodes))
        draft.cure(splits)


def write_info(draft: Draft) -> None:
    """Write info.json, which comes last."""
    edit = edit_json(INFO_PATH, draft.old_info, draft.info)
    draft.write(edit, draft.codes("RR101", "RR102", "RR113", "RR202", "RR406"))
