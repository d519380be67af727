"""Repairs of info.json: version, counts and splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.format.edits import edit_json
from roboreel.format.info_edits import with_counts, with_version
from roboreel.format.paths import INFO_PATH
from roboreel.format.splits import with_splits

if TYPE_CHECKING:
    from roboreel.repair.draft import Draft


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
