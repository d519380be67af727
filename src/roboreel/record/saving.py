"""Saving: finished episodes become part of the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.commit import Commit, Workshop
from roboreel.format.append_v3 import append_episodes
from roboreel.format.counters import COUNTERS, counter_columns
from roboreel.format.ledger import describe_new
from roboreel.record.journal import Records
from roboreel.stats import Accumulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roboreel.format.ledger import Ledger
    from roboreel.record.episode import FinishedEpisode
    from roboreel.record.totals import Totals
    from roboreel.schema import Manifest
    from roboreel.stats.gather import Gathered

_PART_BYTES = 16 * 1024**2
"""Pictures of one row group, in all columns together."""


def save_episodes(ledger: Ledger, totals: Totals, episodes: Sequence[FinishedEpisode]) -> Ledger:
    """Save one episode or several as one commit; when this returns, they are on the disk.

    Args:
        ledger: What the dataset holds so far.
        totals: Its statistics; those of the episodes are added.
        episodes: What to save; their video files are moved.

    Returns:
        What the dataset holds now.
    """
    tasks = [list(dict.fromkeys(episode.rows.tasks)) for episode in episodes]
    manifest = describe_new(ledger, [len(episode.rows) for episode in episodes], tasks)
    columns = [_columns(manifest, place, episode) for place, episode in enumerate(episodes)]
    gathered = [_gather(manifest, *one) for one in zip(columns, episodes, strict=True)]
    for parts in gathered:
        totals.take(parts)
    commit = Commit(Workshop(manifest.root))
    for camera, files in manifest.video_files.items():
        for place, episode in enumerate(episodes):
            episode.videos[camera].replace(commit.add(files[place]))
    saved = append_episodes(
        ledger,
        manifest,
        (part for one in zip(columns, episodes, strict=True) for part in _parts(*one)),
        stats=totals.finish(),
        episode_stats=[{n: part.finish() for n, part in parts.items()} for parts in gathered],
        metadata=[episode.metadata for episode in episodes],
        stage=commit.add,
    )
    commit.run()
    return saved


def _columns(manifest: Manifest, place: int, episode: FinishedEpisode) -> dict[str, Any]:
    """Return the columns of an episode in the data file."""
    table = manifest.episodes
    numbers = {text: number for number, text in manifest.tasks.items()}
    return {
        **episode.rows.columns,
        **episode.pictures,
        **counter_columns(
            len(episode.rows),
            episode=int(table.number[place]),
            start=int(table.start[place]),
            tasks=[numbers[task] for task in episode.rows.tasks],
            fps=manifest.fps,
        ),
    }


def _parts(columns: Mapping[str, Any], episode: FinishedEpisode) -> Iterator[dict[str, Any]]:
    """Yield the columns in parts, so that memory never holds many pictures."""
    sizes = np.zeros(len(episode.rows), np.int64)
    for pictures in episode.pictures.values():
        sizes += pictures.sizes if isinstance(pictures, Records) else [len(p) for p in pictures]
    start, ends = 0, np.cumsum(sizes)
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _PART_BYTES, side="right")))
        yield {name: column[start:stop] for name, column in columns.items()}
        start = stop


def _gather(
    manifest: Manifest, columns: Mapping[str, Any], episode: FinishedEpisode
) -> dict[str, Gathered]:
    gathered: dict[str, Gathered] = {}
    for name, feature in manifest.features.items():
        if feature.is_camera:
            gathered[name] = episode.images[name]
        elif feature.kind == "number":
            part = Accumulator(feature.shape)
            # As stored: timestamps have 32 bits.
            values = np.asarray(columns[name], dtype=COUNTERS.get(name, feature).dtype)
            part.update(values)
            gathered[name] = part
    return gathered
