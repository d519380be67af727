"""Datasets to measure on: LeRobot's layouts at any number of episodes, written fast.

The values are noise. What is true to life is what opening and reading cost depends on: how many
files, row groups and columns there are, how wide the columns are, and how badly they compress.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = [
    "Shape",
    "frames_table",
    "write_stops",
    "write_v21_metadata",
    "write_v30",
    "write_v30_metadata",
]

CAMERAS = ("observation.images.front", "observation.images.wrist")
QUANTILES = ("q01", "q10", "q50", "q90", "q99")
TASKS = ("pick the red cube", "open the drawer", "fold the towel")


@dataclass(frozen=True)
class Shape:
    """How large a dataset is, and how it is cut into files."""

    episodes: int
    mean_length: int = 300
    width: int = 14
    """Numbers in the state, and in the action."""
    cameras: int = 2
    fps: int = 30
    episodes_per_row_group: int = 1000
    """Of the episodes table: converters write large groups, LeRobot's recorder writes 10."""
    episodes_per_data_file: int = 500
    episodes_per_meta_file: int = 30_000
    """About where LeRobot starts another file: 100 MB."""

    def lengths(self) -> NDArray[np.int64]:
        """Return the frames of each episode, ``(E,)``, the same at every call."""
        spread = self.mean_length // 3
        noise = np.random.default_rng(0).integers(-spread, spread + 1, self.episodes)
        return (self.mean_length + noise).astype(np.int64)

    def features(self) -> dict[str, dict[str, Any]]:
        """Return the features as info.json has them."""
        joints = [f"joint_{i}.pos" for i in range(self.width)]
        vector = {"dtype": "float32", "shape": [self.width], "names": joints}
        camera = {
            "dtype": "video",
            "shape": [480, 640, 3],
            "names": ["height", "width", "channels"],
            "info": {
                "video.height": 480,
                "video.width": 640,
                "video.codec": "av1",
                "video.pix_fmt": "yuv420p",
                "video.is_depth_map": False,
                "video.fps": self.fps,
                "video.channels": 3,
                "has_audio": False,
            },
        }
        whole = ("frame_index", "episode_index", "index", "task_index")
        return {
            "observation.state": vector,
            "action": vector,
            **dict.fromkeys(CAMERAS[: self.cameras], camera),
            "timestamp": {"dtype": "float32", "shape": [1], "names": None},
            **{name: {"dtype": "int64", "shape": [1], "names": None} for name in whole},
        }


def write_v30(root: Path, shape: Shape) -> Path:
    """Write a v3.0 dataset that LeRobot opens, its videos empty files; return its folder.

    Opening looks whether the videos are there and decodes none, so empty ones will do.
    """
    write_v30_metadata(root, shape)
    lengths = shape.lengths()
    starts = np.cumsum(lengths) - lengths
    for file, first in enumerate(range(0, shape.episodes, shape.episodes_per_data_file)):
        span = slice(first, first + shape.episodes_per_data_file)
        path = root / f"data/chunk-000/file-{file:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        frames = frames_table(shape, first, starts[span], lengths[span])
        with pq.ParquetWriter(path, frames.schema) as writer:  # a row group for each episode
            for start, length in zip(starts[span] - starts[first], lengths[span], strict=True):
                writer.write_table(frames.slice(start, length))
        for camera in CAMERAS[: shape.cameras]:
            video = root / f"videos/{camera}/chunk-000/file-{file:03d}.mp4"
            video.parent.mkdir(parents=True, exist_ok=True)
            video.touch()
    return root


def write_stops(path: Path, shape: Shape) -> Path:
    """Write where the episode of each row stops, ``(N,)``, for peers that know no episodes."""
    lengths = shape.lengths()
    np.save(path, np.repeat(np.cumsum(lengths), lengths))
    return path


def write_v30_metadata(root: Path, shape: Shape) -> Path:
    """Write the metadata of a v3.0 dataset and nothing else; return its folder."""
    info = {
        **_info("v3.0", shape),
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }
    _write_json(root / "meta/info.json", info)
    _write_json(root / "meta/stats.json", _stats_json(shape, (*_PLAIN, *QUANTILES)))
    tasks = pa.table({"task_index": np.arange(len(TASKS)), "__index_level_0__": list(TASKS)})
    pq.write_table(tasks, root / "meta/tasks.parquet")
    folder = root / "meta/episodes/chunk-000"
    folder.mkdir(parents=True)
    for file, first in enumerate(range(0, shape.episodes, shape.episodes_per_meta_file)):
        stop = min(first + shape.episodes_per_meta_file, shape.episodes)
        table = _episodes(shape, np.arange(first, stop), file)
        path = folder / f"file-{file:03d}.parquet"
        pq.write_table(table, path, row_group_size=shape.episodes_per_row_group)
    return root


def write_v21_metadata(root: Path, shape: Shape) -> Path:
    """Write the metadata of a v2.1 dataset and nothing else; return its folder."""
    info = {
        **_info("v2.1", shape),
        "total_videos": shape.episodes * shape.cameras,
        "total_chunks": -(-shape.episodes // 1000),
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/"
        "episode_{episode_index:06d}.mp4",
    }
    _write_json(root / "meta/info.json", info)
    lengths = shape.lengths().tolist()
    # A few lines of statistics over and over: nobody reads them, but they are there to be skipped.
    stats = [json.dumps(_stats_json(shape, _PLAIN, seed)) for seed in range(16)]
    tasks = [json.dumps([task]) for task in TASKS]
    _write_lines(
        root / "meta/tasks.jsonl",
        [json.dumps({"task_index": i, "task": task}) for i, task in enumerate(TASKS)],
    )
    _write_lines(
        root / "meta/episodes.jsonl",
        [
            f'{{"episode_index": {i}, "tasks": {tasks[i % len(TASKS)]}, "length": {length}}}'
            for i, length in enumerate(lengths)
        ],
    )
    _write_lines(
        root / "meta/episodes_stats.jsonl",
        [f'{{"episode_index": {i}, "stats": {stats[i % 16]}}}' for i in range(shape.episodes)],
    )
    return root


_PLAIN = ("min", "max", "mean", "std", "count")


def _info(version: str, shape: Shape) -> dict[str, Any]:
    return {
        "codebase_version": version,
        "robot_type": "two_arms",
        "total_episodes": shape.episodes,
        "total_frames": int(shape.lengths().sum()),
        "total_tasks": len(TASKS),
        "chunks_size": 1000,
        "fps": shape.fps,
        "splits": {"train": f"0:{shape.episodes}"},
        "features": shape.features(),
    }


def _episodes(shape: Shape, number: NDArray[np.int64], meta_file: int) -> pa.Table:
    """Return the episodes table, its columns in LeRobot's order."""
    lengths = shape.lengths()
    stops = np.cumsum(lengths)
    file = number // shape.episodes_per_data_file
    first = file * shape.episodes_per_data_file
    start, stop, file_start = (stops - lengths)[number], stops[number], (stops - lengths)[first]
    zero = np.zeros_like(number)
    columns: dict[str, Any] = {
        "episode_index": number,
        "tasks": pa.array([[TASKS[i % len(TASKS)]] for i in number.tolist()]),
        "length": lengths[number],
        "data/chunk_index": zero,
        "data/file_index": file,
        "dataset_from_index": start,
        "dataset_to_index": stop,
    }
    for camera in CAMERAS[: shape.cameras]:
        columns[f"videos/{camera}/chunk_index"] = zero
        columns[f"videos/{camera}/file_index"] = file
        columns[f"videos/{camera}/from_timestamp"] = (start - file_start) / shape.fps
        columns[f"videos/{camera}/to_timestamp"] = (stop - file_start) / shape.fps
    columns |= _stats_columns(shape, len(number))
    columns["meta/episodes/chunk_index"] = zero
    columns["meta/episodes/file_index"] = zero + meta_file
    return pa.table(columns)


def _stats_columns(shape: Shape, count: int) -> dict[str, pa.Array]:
    random = np.random.default_rng(1)
    columns: dict[str, pa.Array] = {}
    for name, feature in shape.features().items():
        camera = feature["dtype"] in ("image", "video")
        width = 3 if camera else feature["shape"][0]
        for statistic in (*_PLAIN, *QUANTILES):
            if statistic == "count":
                columns[f"stats/{name}/count"] = _lists(random.integers(100, 400, (count, 1)))
                continue
            values = _lists(random.standard_normal((count, width)))
            if camera:  # one number a channel, as shape (3, 1, 1)
                ones = np.arange(3 * count + 1, dtype=np.int32)
                inner = pa.ListArray.from_arrays(ones, values.values)
                inner = pa.ListArray.from_arrays(ones, inner)
                values = pa.ListArray.from_arrays(values.offsets, inner)
            columns[f"stats/{name}/{statistic}"] = values
    return columns


def _lists(values: NDArray[Any]) -> pa.ListArray:
    count, width = values.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, values.reshape(-1))


def frames_table(
    shape: Shape, first: int, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> pa.Table:
    """Return the numbers of a run of episodes, as its data file holds them."""
    random = np.random.default_rng(first)
    row = np.arange(starts[0], starts[-1] + lengths[-1])
    episode = first + np.repeat(np.arange(len(lengths)), lengths)
    frame = row - np.repeat(starts, lengths)
    vectors = {
        name: pa.FixedSizeListArray.from_arrays(
            random.standard_normal(len(row) * shape.width, dtype=np.float32), shape.width
        )
        for name in ("observation.state", "action")
    }
    return pa.table(
        {
            **vectors,
            "timestamp": (frame / shape.fps).astype(np.float32),
            "frame_index": frame,
            "episode_index": episode,
            "index": row,
            "task_index": episode % len(TASKS),
        }
    )


def _stats_json(shape: Shape, statistics: tuple[str, ...], seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    stats: dict[str, Any] = {}
    for name, feature in shape.features().items():
        camera = feature["dtype"] in ("image", "video")
        width = 3 if camera else feature["shape"][0]
        stats[name] = {
            statistic: [300]
            if statistic == "count"
            else random.standard_normal((width, 1, 1) if camera else width).tolist()
            for statistic in statistics
        }
    return stats


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=4))


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n")
