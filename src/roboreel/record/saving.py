"""A finished episode becomes part of the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.commit import Commit, Workshop
from roboreel.format.counters import COUNTERS, counter_columns
from roboreel.format.write_v3 import (
    EPISODES_PATH,
    write_data_file,
    write_episodes,
    write_info,
    write_stats,
    write_tasks,
)
from roboreel.record.ledger import describe_episode, following
from roboreel.stats import Accumulator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.record.episode import FinishedEpisode
    from roboreel.record.ledger import Ledger
    from roboreel.record.totals import Gathered, Totals
    from roboreel.schema import Manifest

__all__ = ["save_episode"]


def save_episode(ledger: Ledger, totals: Totals, episode: FinishedEpisode) -> Ledger:
    """Save an episode; when this returns, it is on the disk.

    Every file is new, except three small ones that are replaced. In this order, so that whoever
    opens the dataset between two steps finds it whole, with the episode or without:

    1. Videos: found only by what the episode table says.
    2. The data file: LeRobot reads all data files there are, and looks at the first
       ``total_frames`` rows; these come after.
    3. Tasks and statistics: one more task, and statistics that are ahead by an episode.
    4. A file of the episode table: readers that count its rows now see the episode, all of it.
    5. ``info.json``: readers that count by it see the episode too.

    Args:
        ledger: What the dataset holds so far.
        totals: Its statistics; the episode's are added.
        episode: What to save; its video files are moved.

    Returns:
        What the dataset holds now.
    """
    manifest = describe_episode(ledger, len(episode.rows), list(dict.fromkeys(episode.rows.tasks)))
    columns = _columns(manifest, episode)
    gathered = _gather(manifest, columns, episode)
    totals.take(gathered)
    place = following(ledger.last_episodes)
    commit = Commit(Workshop(manifest.root))
    for camera, files in manifest.video_files.items():
        episode.videos[camera].replace(commit.add(files[0]))
    write_data_file(commit.add(manifest.data_files[0]), [columns], manifest.features, sync=False)
    if manifest.tasks != ledger.about.tasks:
        write_tasks(commit.add("meta/tasks.parquet"), manifest.tasks, sync=False)
    write_stats(commit.add("meta/stats.json"), totals.finish(), sync=False)
    write_episodes(
        manifest,
        file=place,
        episode_stats=[{name: part.finish() for name, part in gathered.items()}],
        path=commit.add(EPISODES_PATH.format(*place)),
        like=_last_table(ledger),
    )
    saved = ledger.after(manifest, place)
    write_info(
        manifest, path=commit.add("meta/info.json"), counts=(saved.num_episodes, saved.num_rows)
    )
    commit.run()
    return saved


def _last_table(ledger: Ledger) -> Path | None:
    path = ledger.about.root / EPISODES_PATH.format(*ledger.last_episodes)
    return path if ledger.last_episodes[1] >= 0 else None


def _columns(manifest: Manifest, episode: FinishedEpisode) -> dict[str, Any]:
    """Return the columns of the data file, with those that every dataset has."""
    table = manifest.episodes
    numbers = {text: number for number, text in manifest.tasks.items()}
    return {
        **episode.rows.columns,
        **episode.pictures,
        **counter_columns(
            len(episode.rows),
            episode=int(table.number[0]),
            start=int(table.start[0]),
            tasks=[numbers[task] for task in episode.rows.tasks],
            fps=manifest.fps,
        ),
    }


def _gather(
    manifest: Manifest, columns: Mapping[str, Any], episode: FinishedEpisode
) -> dict[str, Gathered]:
    gathered: dict[str, Gathered] = {}
    for name, feature in manifest.features.items():
        if feature.is_camera:
            gathered[name] = episode.images[name]
        elif feature.kind == "number":
            part = Accumulator(feature.shape)
            # As it is stored: timestamps in 32 bits.
            values = np.asarray(columns[name], dtype=COUNTERS.get(name, feature).dtype)
            part.update(values)
            gathered[name] = part
    return gathered
