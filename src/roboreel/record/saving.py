"""Saving: a finished episode becomes part of the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.commit import Commit, Workshop
from roboreel.format.append_v3 import append_episode
from roboreel.format.counters import COUNTERS, counter_columns
from roboreel.format.ledger import describe_episode
from roboreel.record.journal import Records
from roboreel.stats import Accumulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roboreel.format.ledger import Ledger
    from roboreel.record.episode import FinishedEpisode
    from roboreel.record.totals import Gathered, Totals
    from roboreel.schema import Manifest

__all__ = ["save_episode"]

_PART_BYTES = 16 * 1024**2
"""Pictures of one row group, in all columns together."""


def save_episode(ledger: Ledger, totals: Totals, episode: FinishedEpisode) -> Ledger:
    """Save an episode as one commit; when this returns, it is on the disk.

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
    commit = Commit(Workshop(manifest.root))
    for camera, files in manifest.video_files.items():
        episode.videos[camera].replace(commit.add(files[0]))
    saved = append_episode(
        ledger,
        manifest,
        _parts(columns, episode),
        stats=totals.finish(),
        episode_stats={name: part.finish() for name, part in gathered.items()},
        metadata=episode.metadata,
        stage=commit.add,
    )
    commit.run()
    return saved


def _columns(manifest: Manifest, episode: FinishedEpisode) -> dict[str, Any]:
    """Return the columns of the data file."""
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
