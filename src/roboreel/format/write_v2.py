"""Writing LeRobot v2.0 and v2.1 metadata, for robots and tools that still want it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.format.counters import EPISODE_NUMBER, TASK_NUMBER
from roboreel.format.info import write_info
from roboreel.format.json_files import write_json, write_json_lines
from roboreel.format.paths import STATS_PATH, info_path
from roboreel.format.statistics import dataset_stats_to_json, stats_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats


def write_manifest(
    manifest: Manifest,
    stats: Mapping[str, FeatureStats] | None,
    episode_stats: Sequence[Mapping[str, FeatureStats]],
) -> None:
    """Write all metadata of a v2.0 or v2.1 dataset: see `roboreel.format.write_manifest`.

    Of the statistics, v2.0 stores those of the dataset, v2.1 those of the episodes.
    """
    meta, episodes = manifest.root / "meta", manifest.episodes
    numbers, lengths = episodes.number.tolist(), episodes.length.tolist()
    write_tasks(meta / "tasks.jsonl", manifest.tasks)
    write_json_lines(
        meta / "episodes.jsonl",
        (
            {EPISODE_NUMBER: number, "tasks": list(episodes.tasks_of(i)), "length": lengths[i]}
            for i, number in enumerate(numbers)
        ),
    )
    if manifest.version == "v2.0":
        entries = dataset_stats_to_json(stats or {}, manifest.version)
        write_json(manifest.root / STATS_PATH, entries)
    else:
        write_json_lines(
            meta / "episodes_stats.jsonl",
            (
                {EPISODE_NUMBER: n, "stats": {k: stats_to_json(s) for k, s in entry.items()}}
                for n, entry in zip(numbers, episode_stats, strict=True)
            ),
        )
    write_info(info_path(manifest.root), manifest)


def write_tasks(path: Path, tasks: Mapping[int, str], *, sync: bool = True) -> None:
    """Write the table of tasks, a line for each."""
    lines = ({TASK_NUMBER: number, "task": text} for number, text in tasks.items())
    write_json_lines(path, lines, sync=sync)
