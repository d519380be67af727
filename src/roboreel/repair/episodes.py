"""Repairs of the table of episodes: entries, lengths and row spans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

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
