"""Writing LeRobot v3.0 metadata, so that LeRobot and Rerun open it."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.format.counters import EPISODE_NUMBER
from roboreel.format.episode_table import stat_column
from roboreel.format.info import write_info
from roboreel.format.json_files import write_json
from roboreel.format.paths import STATS_PATH, SUBTASKS_PATH, TASKS_PATH, info_path
from roboreel.format.places import episodes_path
from roboreel.format.statistics import dataset_stats_to_json, stats_to_columns
from roboreel.parquet.ragged import TextLists
from roboreel.parquet.writing import write_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.format.places import Place
    from roboreel.schema import FileSet, Manifest
    from roboreel.stats import FeatureStats

    Column = NDArray[np.int64] | NDArray[np.float64]

_NUMBERS = ("chunk_index", "file_index")


def write_manifest(
    manifest: Manifest,
    stats: Mapping[str, FeatureStats] | None,
    episode_stats: Sequence[Mapping[str, FeatureStats]],
) -> None:
    """Write all metadata of a v3.0 dataset: see `roboreel.format.write_manifest`."""
    root, place = manifest.root, (0, 0)
    if manifest.version != "v3.0":
        raise ValueError(f"Only v3.0 is written: the manifest is of {manifest.version}.")
    write_tasks(root / TASKS_PATH, manifest.tasks)
    if manifest.subtasks:
        write_tasks(root / SUBTASKS_PATH, manifest.subtasks, noun="subtask")
    write_episodes(root / episodes_path(place), manifest, place=place, episode_stats=episode_stats)
    if stats is not None:
        write_stats(root / STATS_PATH, stats)
    write_info(info_path(root), manifest)


def write_tasks(
    path: Path, tasks: Mapping[int, str], *, noun: str = "task", sync: bool = True
) -> None:
    """Write a table of numbered texts, the text as the pandas index by which LeRobot looks up."""
    described = [
        {
            "name": name,
            "field_name": name,
            "pandas_type": kind,
            "numpy_type": kind,
            "metadata": None,
        }
        for name, kind in ((f"{noun}_index", "int64"), (noun, "unicode"))
    ]
    pandas = {
        "index_columns": [noun],
        "column_indexes": [],
        "columns": described,
        "pandas_version": "2.0.0",
    }
    columns = {
        f"{noun}_index": np.fromiter(tasks, dtype=np.int64, count=len(tasks)),
        noun: np.array(list(tasks.values()), dtype=object),
    }
    write_columns(path, columns, metadata={"pandas": json.dumps(pandas)}, sync=sync)


def write_episodes(
    path: Path,
    manifest: Manifest,
    *,
    place: Place,
    episode_stats: Sequence[Mapping[str, FeatureStats]] = (),
    metadata: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    like: Path | None = None,
    sync: bool = True,
) -> None:
    """Write a file of the episode table.

    Args:
        path: Where to write.
        manifest: The dataset, or as much of it as this file lists.
        place: Chunk and file number of this file of the table.
        episode_stats: Statistics of each of these episodes.
        metadata: Further columns, with a value for each of these episodes.
        like: Another file of the table, whose columns this one is to have: LeRobot reads only
            tables whose files are alike.
        sync: Whether the file must be on the disk when this returns.
    """
    episodes = manifest.episodes
    columns: dict[str, Any] = {
        EPISODE_NUMBER: episodes.number,
        "tasks": TextLists(episodes.task_bounds, episodes.task_codes, episodes.task_texts),
        "length": episodes.length,
        **_file_columns("data", manifest.data_files, episodes.data_file),
        "dataset_from_index": episodes.start,
        "dataset_to_index": episodes.start + episodes.length,
        **_clip_columns(manifest, slice(None)),
        **metadata,
        **_stats_columns(episode_stats),
        **_table_columns(place, len(episodes)),
    }
    write_columns(path, columns, like=like, sync=sync)


def place_columns(
    manifest: Manifest, place: Place, part: slice | NDArray[np.int64]
) -> dict[str, Column]:
    """Return the columns of the episode table that say where each episode lies.

    Args:
        manifest: The dataset.
        place: Chunk and file number of the file of the table that lists them.
        part: The positions of these episodes.
    """
    episodes = manifest.episodes
    return {
        **_file_columns("data", manifest.data_files, episodes.data_file[part]),
        **_clip_columns(manifest, part),
        **_table_columns(place, len(episodes.number[part])),
    }


def located_columns(manifest: Manifest) -> dict[str, dict[str, Column]]:
    """Return the columns of the episode table that say what each episode has.

    Returns:
        Columns by kind: ``rows``, ``files`` (of rows) and ``clips``.
    """
    episodes = manifest.episodes
    rows: dict[str, Column] = {
        "length": episodes.length,
        "dataset_from_index": episodes.start,
        "dataset_to_index": episodes.start + episodes.length,
    }
    clips: dict[str, Column] = {}
    for camera, table in episodes.clips.items():
        if len(manifest.video_files[camera]):
            clips[f"videos/{camera}/from_timestamp"] = table.start_s
            clips[f"videos/{camera}/to_timestamp"] = table.stop_s
    files = _file_columns("data", manifest.data_files, episodes.data_file)
    return {"rows": rows, "files": files, "clips": clips}


def _clip_columns(manifest: Manifest, part: slice | NDArray[np.int64]) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for camera, clips in manifest.episodes.clips.items():
        prefix = f"videos/{camera}"
        columns |= _file_columns(prefix, manifest.video_files[camera], clips.file[part])
        columns[f"{prefix}/from_timestamp"] = clips.start_s[part]
        columns[f"{prefix}/to_timestamp"] = clips.stop_s[part]
    return columns


def _table_columns(place: Place, count: int) -> dict[str, Column]:
    numbers = zip(_NUMBERS, place, strict=True)
    return {f"meta/episodes/{name}": np.full(count, number, np.int64) for name, number in numbers}


def _file_columns(
    prefix: str, files: FileSet, file_of_episode: NDArray[np.int64]
) -> dict[str, Column]:
    return {f"{prefix}/{name}": files.numbers[name][file_of_episode] for name in _NUMBERS}


def write_stats(path: Path, stats: Mapping[str, FeatureStats], *, sync: bool = True) -> None:
    """Write the statistics of the whole dataset."""
    write_json(path, dataset_stats_to_json(stats, "v3.0"), sync=sync)


def _stats_columns(episode_stats: Sequence[Mapping[str, FeatureStats]]) -> dict[str, Any]:
    own: dict[str, list[FeatureStats]] = {}
    for stats in episode_stats:
        for name, feature_stats in stats.items():
            own.setdefault(name, []).append(feature_stats)
    return {
        stat_column(name, key): column
        for name, several in own.items()
        for key, column in stats_to_columns(several).items()
    }
