"""Writing LeRobot v3.0, so that LeRobot and Rerun open it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.files import write_atomically
from roboreel.format.info import Info, info_path
from roboreel.format.statistics import stats_to_json
from roboreel.storage.frame_tables import frame_schema, frame_table, picture_columns
from roboreel.storage.parquet import write_columns, write_parquet
from roboreel.storage.ragged import TextLists

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Feature, Manifest
    from roboreel.stats import FeatureStats

__all__ = [
    "CHUNKS_SIZE",
    "DATA_PATH",
    "EPISODES_PATH",
    "VIDEO_PATH",
    "write_data_file",
    "write_episodes",
    "write_info",
    "write_manifest",
    "write_stats",
    "write_tasks",
]

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{:03d}/file-{:03d}.parquet"
CHUNKS_SIZE = 1000
_FILE_SIZES = {"data_files_size_in_mb": 100, "video_files_size_in_mb": 200}


def write_manifest(
    manifest: Manifest,
    *,
    stats: Mapping[str, FeatureStats] | None = None,
    episode_stats: Sequence[Mapping[str, FeatureStats]] = (),
) -> None:
    """Write all metadata of a dataset; ``info.json``, which makes it one, comes last.

    Args:
        manifest: A manifest of version v3.0; its root is where the files go.
        stats: Statistics of the whole dataset, by feature.
        episode_stats: Statistics of each episode, in the order of the table.
    """
    if manifest.version != "v3.0":
        raise ValueError(f"Only v3.0 is written: the manifest is of {manifest.version}.")
    write_tasks(manifest.root / "meta" / "tasks.parquet", manifest.tasks)
    if manifest.subtasks:
        write_tasks(manifest.root / "meta" / "subtasks.parquet", manifest.subtasks, noun="subtask")
    write_episodes(manifest, episode_stats=episode_stats)
    if stats is not None:
        write_stats(manifest.root / "meta" / "stats.json", stats)
    write_info(manifest)


def write_data_file(
    path: Path,
    episodes: Iterable[Mapping[str, NDArray[Any] | Sequence[Any]]],
    features: Mapping[str, Feature],
    *,
    sync: bool = True,
) -> int:
    """Write a data file, one row group per episode; return how many rows it has.

    Args:
        path: Where it shall appear.
        episodes: The columns of each episode, as `frame_table` takes them.
        features: The dataset's features.
        sync: Whether the file must be on the disk when this returns.
    """
    return write_parquet(
        path,
        (frame_table(columns, features) for columns in episodes),
        frame_schema(features),
        plain=picture_columns(features),
        metadata={"huggingface": json.dumps({"info": {"features": _hf_features(features)}})},
        sync=sync,
    )


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
    manifest: Manifest,
    *,
    span: tuple[int, int] | None = None,
    file: tuple[int, int] = (0, 0),
    episode_stats: Sequence[Mapping[str, FeatureStats]] = (),
    path: Path | None = None,
    like: Path | None = None,
) -> Path:
    """Write a file of the episode table.

    Args:
        manifest: The dataset.
        span: Positions ``[start, stop)`` of the episodes to write; all of them when not given.
        file: Chunk and file number.
        episode_stats: Statistics of each of these episodes.
        path: Where to write, without waiting for the disk, if not yet at its place.
        like: Another file of the table, whose columns this one is to have: LeRobot reads only
            tables whose files are alike.

    Returns:
        The file that was written.
    """
    start, stop = span or (0, len(manifest.episodes))
    columns = _location_columns(manifest, slice(start, stop))
    columns |= _stats_columns(episode_stats)
    columns["meta/episodes/chunk_index"] = np.full(stop - start, file[0], dtype=np.int64)
    columns["meta/episodes/file_index"] = np.full(stop - start, file[1], dtype=np.int64)
    target = path or manifest.root / EPISODES_PATH.format(*file)
    write_columns(target, columns, like=like, sync=path is None)
    return target


def write_stats(path: Path, stats: Mapping[str, FeatureStats], *, sync: bool = True) -> None:
    """Write the statistics of the whole dataset."""
    raw = {name: stats_to_json(feature_stats) for name, feature_stats in stats.items()}
    write_atomically(path, json.dumps(raw, indent=4), sync=sync)


def write_info(
    manifest: Manifest,
    *,
    path: Path | None = None,
    counts: tuple[int, int] | None = None,
) -> None:
    """Write info.json: from this moment the folder is the dataset that the manifest describes.

    Args:
        manifest: The dataset.
        path: Where to write, without waiting for the disk, if not yet at its place.
        counts: How many episodes and frames there are, if the manifest does not list them all.
    """
    count, num_rows = counts or (len(manifest.episodes), manifest.episodes.num_rows)
    info = Info(
        path=info_path(manifest.root),
        version=(3, 0),
        fps=manifest.fps,
        features=manifest.features,
        data_path=manifest.data_files.template,
        video_path=next((files.template for files in manifest.video_files.values()), None),
        robot_type=manifest.robot_type,
        chunks_size=CHUNKS_SIZE,
        totals={
            "total_episodes": count,
            "total_frames": num_rows,
            "total_tasks": len(manifest.tasks),
        },
        splits=manifest.splits or {"train": f"0:{count}"},
        extra={**_FILE_SIZES, **manifest.extra},
    )
    text = json.dumps(info.to_json(), indent=4, ensure_ascii=False)
    write_atomically(path or info.path, text, sync=path is None)


def _location_columns(manifest: Manifest, part: slice) -> dict[str, Any]:
    episodes = manifest.episodes
    files = manifest.data_files.columns
    tasks = TextLists(episodes.task_bounds, episodes.task_codes, episodes.task_texts)
    columns: dict[str, Any] = {
        "episode_index": episodes.number[part],
        "tasks": tasks.take(np.arange(len(episodes), dtype=np.int64)[part]),
        "length": episodes.length[part],
        "data/chunk_index": files["chunk_index"][episodes.data_file[part]],
        "data/file_index": files["file_index"][episodes.data_file[part]],
        "dataset_from_index": episodes.start[part],
        "dataset_to_index": episodes.start[part] + episodes.length[part],
    }
    for camera, clips in episodes.clips.items():
        files = manifest.video_files[camera].columns
        columns[f"videos/{camera}/chunk_index"] = files["chunk_index"][clips.file[part]]
        columns[f"videos/{camera}/file_index"] = files["file_index"][clips.file[part]]
        columns[f"videos/{camera}/from_timestamp"] = clips.start_s[part]
        columns[f"videos/{camera}/to_timestamp"] = clips.stop_s[part]
    return columns


def _stats_columns(episode_stats: Sequence[Mapping[str, FeatureStats]]) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {}
    for stats in episode_stats:
        for name, feature_stats in stats.items():
            for key, value in stats_to_json(feature_stats).items():
                columns.setdefault(f"stats/{name}/{key}", []).append(value)
    return columns


def _hf_features(features: Mapping[str, Feature]) -> dict[str, Any]:
    """Return the description by which `datasets` restores the types of a table."""
    return {
        name: _hf_feature(feature) for name, feature in features.items() if feature.dtype != "video"
    }


def _hf_feature(feature: Feature) -> dict[str, Any]:
    if feature.dtype == "image":
        return {"_type": "Image"}
    value = {"dtype": feature.dtype, "_type": "Value"}
    shape = feature.value_shape
    if not shape:
        return value
    if len(shape) == 1:
        return {"feature": value, "length": shape[0], "_type": "List"}
    return {"shape": list(shape), "dtype": feature.dtype, "_type": f"Array{len(shape)}D"}
