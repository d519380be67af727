"""From findings to a plan: what is wrong is looked up again, and answered file by file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roboreel.check import check_dataset
from roboreel.check.context import Context
from roboreel.check.ledger import select_codes
from roboreel.errors import DatasetError
from roboreel.format import read_manifest
from roboreel.format.episode_table import episode_list
from roboreel.format.hub import dataset_folder
from roboreel.io.sources import refuse_source
from roboreel.repair.draft import Draft
from roboreel.repair.files import cure_footers, cure_places, cure_strays
from roboreel.repair.metadata import (
    cure_counts,
    cure_entries,
    cure_lengths,
    cure_missing_tasks,
    cure_version,
    write_info,
    write_new_tasks,
)
from roboreel.repair.plan import RepairPlan
from roboreel.repair.rows import cure_rows
from roboreel.repair.statistics import cure_statistics, write_statistics
from roboreel.repair.unlisted import left_out
from roboreel.repair.videos import cure_clips, cure_indexes, cure_video_format

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from roboreel.findings import Finding

ON_REQUEST = ("RR411", "RR505")
"""Repaired only when ``only`` names them: one copies every video to gain a little, the other changes
numbers that trained policies normalize by."""

_EPISODE_CODES = ("RR112", "RR114", "RR202", "RR203", "RR404", "RR405", "RR506")


def plan_repair(
    path: str | os.PathLike[str],
    *,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
    episodes: Sequence[int] | None = None,
    deep: bool = False,
    trust_values: bool = False,
    set_aside: bool = False,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> RepairPlan:
    """Return what a repair of a dataset would do. Nothing is changed.

    Args:
        path: The dataset's folder.
        only: Codes, or beginnings of codes, to repair: ``["RR5", "RR101"]``.
        ignore: Codes, or beginnings of codes, to leave alone.
        episodes: Numbers of the episodes to look at; all when not given.
        deep: Whether to decode every image: to find more, and for the statistics of cameras.
        trust_values: Whether stored statistics that contradict the values are computed from them. By
            default they stay: they may be the only sign that values changed after recording.
        set_aside: Whether data files of episodes that the table does not list are set aside, with
            their videos. By default they stay where they are, and the plan names them.
        on_progress: Called with what is being read, how much of it is done, and how much there is.

    Raises:
        NotADatasetError: There is no dataset at this path.
        EpisodeNotFoundError: A number that no episode has.
        ValueError: No rule has such a code.
    """
    root = dataset_folder(path)
    refuse_source(root, "repaired")
    findings = check_dataset(
        root,
        tier="deep" if deep else None,
        only=only,
        ignore=ignore,
        episodes=episodes,
        on_progress=on_progress,
    )
    wanted = [one for one in findings if one.fixable and _is_asked(one, only)]
    try:
        manifest = read_manifest(root)
    except DatasetError:
        # The findings say why it cannot be opened; the rest is found once it can be.
        return RepairPlan.of(root, findings, [], [])
    context = Context(manifest, episodes=episodes, on_progress=on_progress)
    draft = Draft(context, wanted)
    _fill(draft, deep=deep, trust_values=trust_values, set_aside=set_aside)
    plan = RepairPlan.of(root, findings, draft.cured, draft.changes, draft.unlisted)
    return replace(
        plan,
        contradictions=tuple(draft.contradictions),
        trusts_values=trust_values,
        sets_aside=set_aside,
        lacking=left_out(manifest, draft.unlisted),
    )


def _fill(draft: Draft, *, deep: bool, trust_values: bool, set_aside: bool) -> None:
    """Let each cure add its changes. Later ones see what earlier ones decided."""
    cure_places(draft)
    cure_footers(draft)
    cure_indexes(draft)
    cure_lengths(draft)
    cure_entries(draft)
    cure_clips(draft)
    cure_missing_tasks(draft)
    cure_rows(draft)
    cure_video_format(draft)
    # Values that cannot be read yet are counted in another round.
    if not draft.codes("RR110", "RR201"):
        cure_statistics(draft, deep=deep, trust_values=trust_values)
    cure_version(draft)
    cure_counts(draft)
    write_new_tasks(draft)
    if draft.episode_kinds or draft.episode_stats:
        codes = draft.codes(*_EPISODE_CODES)
        own = {} if draft.manifest.version == "v2.1" else draft.episode_stats
        for edit in episode_list(draft.manifest).corrections(draft.episode_kinds, own):
            draft.write(edit, codes)
    write_statistics(draft)
    cure_strays(draft, set_aside=set_aside)
    write_info(draft)


def _is_asked(found: Finding, only: Sequence[str]) -> bool:
    return found.code not in ON_REQUEST or (bool(only) and found.code in select_codes(only))
