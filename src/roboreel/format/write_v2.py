"""Writing LeRobot v2.0 and v2.1 metadata, for robots and tools that still want it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from roboreel.files import write_atomically
from roboreel.format.info import Info, info_path
from roboreel.format.statistics import stats_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

__all__ = ["CHUNKS_SIZE", "DATA_PATH", "VIDEO_PATH", "write_manifest"]

CHUNKS_SIZE = 1000
DATA_PATH = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO_PATH = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"


def write_manifest(
    manifest: Manifest,
    *,
    stats: Mapping[str, FeatureStats],
    episode_stats: Sequence[Mapping[str, FeatureStats]],
) -> None:
    """Write all metadata of a v2.0 or v2.1 dataset; ``info.json`` comes last.

    Args:
        manifest: A manifest of one of these versions; its root is where the files go.
        stats: Statistics of the whole dataset, which v2.0 stores.
        episode_stats: Statistics of each episode, which v2.1 stores.
    """
    meta, episodes = manifest.root / "meta", manifest.episodes
    numbers, lengths = episodes.number.tolist(), episodes.length.tolist()
    tasks = [{"task_index": i, "task": text} for i, text in manifest.tasks.items()]
    _write_lines(meta / "tasks.jsonl", tasks)
    _write_lines(
        meta / "episodes.jsonl",
        [
            {"episode_index": number, "tasks": list(episodes.tasks_of(i)), "length": lengths[i]}
            for i, number in enumerate(numbers)
        ],
    )
    if manifest.version == "v2.0":
        raw = {name: _without_count(stats_to_json(s)) for name, s in stats.items()}
        write_atomically(meta / "stats.json", json.dumps(raw, indent=4))
    else:
        _write_lines(
            meta / "episodes_stats.jsonl",
            (
                {"episode_index": n, "stats": {k: stats_to_json(s) for k, s in entry.items()}}
                for n, entry in zip(numbers, episode_stats, strict=True)
            ),
        )
    _write_info(manifest)


def _write_info(manifest: Manifest) -> None:
    count = len(manifest.episodes)
    major, minor = manifest.version.removeprefix("v").split(".")
    info = Info(
        path=info_path(manifest.root),
        version=(int(major), int(minor)),
        fps=manifest.fps,
        features=manifest.features,
        data_path=manifest.data_files.template,
        video_path=next((files.template for files in manifest.video_files.values()), None),
        robot_type=manifest.robot_type,
        chunks_size=CHUNKS_SIZE,
        totals={
            "total_episodes": count,
            "total_frames": manifest.episodes.num_rows,
            "total_tasks": len(manifest.tasks),
        },
        splits=manifest.splits or {"train": f"0:{count}"},
        extra={
            "total_videos": count * len(manifest.video_files),
            "total_chunks": -(-count // CHUNKS_SIZE),
            **manifest.extra,
        },
    )
    write_atomically(info.path, json.dumps(info.to_json(), indent=4, ensure_ascii=False))


def _write_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    lines = (json.dumps(value, ensure_ascii=False) for value in values)
    write_atomically(path, "".join(f"{line}\n" for line in lines))


def _without_count(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key in ("min", "max", "mean", "std")}
