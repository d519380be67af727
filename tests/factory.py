"""Small datasets in milliseconds, each value of which tells its row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import pytest

from roboreel.format import write_manifest
from roboreel.format.counters import COUNTERS
from roboreel.format.features import feature_to_json
from roboreel.format.places import DATA_PATH, VIDEO_PATH
from roboreel.format.write_data import write_data_file
from roboreel.schema import ClipTable, EpisodeTable, Feature, FileSet, Manifest
from tests import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

SHARED = PROJECT.parent / "shared" / "data"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not here")

TASKS = {0: "pick the cube", 1: "open the drawer"}

NUMBERS = {
    "observation.state": Feature("float32", (3,), names=("x", "y", "z")),
    "action": Feature("float32", (2,)),
    "next.reward": Feature("float32", (1,)),
    "next.done": Feature("bool", (1,)),
    "grid": Feature("float64", (2, 3)),
    "mode": Feature("int64", (1,)),
    "note": Feature("string", (1,)),
}


def image_of(row: int, size: tuple[int, int] = (8, 12)) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a picture whose pixels carry a row number, ``(H, W, 3)``."""
    image = np.zeros((*size, 3), np.uint8)
    image[..., 0], image[..., 1], image[..., 2] = row & 255, row >> 8 & 255, (row * 37) & 255
    image[: size[0] // 2, : size[1] // 2, 2] ^= 255
    return image


def columns_of(
    features: dict[str, Feature], start: int, length: int, episode: int, fps: float = 30
) -> dict[str, Any]:
    """Return the columns of one episode; every number is a simple function of its row."""
    rows = np.arange(start, start + length)
    columns: dict[str, Any] = {
        "timestamp": np.arange(length) / fps,
        "frame_index": np.arange(length),
        "episode_index": np.full(length, episode),
        "index": rows,
        "task_index": np.full(length, episode % len(TASKS)),
    }
    for name, feature in features.items():
        if name in columns or feature.dtype == "video":
            continue
        if feature.dtype == "image":
            columns[name] = [imagecodecs.png_encode(image_of(int(row))) for row in rows]
        elif feature.kind == "text":
            columns[name] = [f"row {row}" for row in rows]
        elif feature.dtype == "bool":
            columns[name] = rows % 3 == 0
        else:
            shape = feature.value_shape
            within = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
            columns[name] = rows.reshape(-1, *[1] * len(shape)) * 100 + within
    return columns


def make_manifest(
    root: Path,
    lengths: list[int],
    *,
    features: dict[str, Feature] | None = None,
    episodes_per_file: int = 2,
    fps: float = 30,
) -> Manifest:
    """Return the manifest of a v3.0 dataset, several episodes to a file."""
    length = np.asarray(lengths, dtype=np.int64)
    count = len(length)
    start = np.cumsum(length) - length
    file = np.arange(count, dtype=np.int64) // episodes_per_file
    first = np.searchsorted(file, file)
    num_files = int(file[-1]) + 1 if count else 0
    files = {"chunk_index": np.zeros(num_files, np.int64), "file_index": np.arange(num_files)}
    features = {**(NUMBERS if features is None else features), **COUNTERS}
    cameras = [name for name, feature in features.items() if feature.dtype == "video"]
    begin_s = (start - start[first]) / fps
    clips = ClipTable(file, begin_s, begin_s + length / fps)
    return Manifest(
        root=root,
        version="v3.0",
        fps=fps,
        features=features,
        tasks=dict(TASKS),
        episodes=EpisodeTable(
            number=np.arange(count, dtype=np.int64),
            start=start,
            length=length,
            data_file=file,
            data_row=start - start[first],
            clips=dict.fromkeys(cameras, clips),
            task_bounds=np.arange(count + 1, dtype=np.int64),
            task_codes=np.arange(count, dtype=np.int64) % len(TASKS),
            task_texts=tuple(TASKS.values()),
        ),
        data_files=FileSet(DATA_PATH, files),
        video_files={
            camera: FileSet(VIDEO_PATH, files, {"video_key": camera}) for camera in cameras
        },
        robot_type="test_arm",
        splits={"train": f"0:{count}"},
    )


def write_dataset(root: Path, lengths: list[int], **options: Any) -> Manifest:
    """Write a v3.0 dataset without video files."""
    manifest = make_manifest(root, lengths, **options)
    episodes = manifest.episodes
    for file in range(len(manifest.data_files)):
        positions = np.flatnonzero(episodes.data_file == file).tolist()
        write_data_file(
            root / manifest.data_files[file],
            [
                columns_of(
                    dict(manifest.features),
                    int(episodes.start[p]),
                    int(episodes.length[p]),
                    p,
                    manifest.fps,
                )
                for p in positions
            ],
            manifest.features,
        )
    write_manifest(manifest)
    return manifest


def write_dataset_v2(
    root: Path,
    lengths: list[int],
    *,
    version: str = "v2.1",
    features: dict[str, Feature] | None = None,
) -> None:
    """Write a v2.0 or v2.1 dataset without video files."""
    features = {**(NUMBERS if features is None else features), **COUNTERS}
    meta = root / "meta"
    meta.mkdir(parents=True, exist_ok=True)
    start = 0
    for episode, length in enumerate(lengths):
        path = root / f"data/chunk-{episode // 1000:03d}/episode_{episode:06d}.parquet"
        write_data_file(path, [columns_of(features, start, length, episode)], features)
        start += length
    (meta / "tasks.jsonl").write_text(
        "".join(json.dumps({"task_index": i, "task": t}) + "\n" for i, t in TASKS.items())
    )
    (meta / "episodes.jsonl").write_text(
        "".join(
            json.dumps({"episode_index": e, "tasks": [TASKS[e % 2]], "length": n}) + "\n"
            for e, n in enumerate(lengths)
        )
    )
    video = any(feature.dtype == "video" for feature in features.values())
    info = {
        "codebase_version": version,
        "robot_type": "test_arm",
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "total_tasks": len(TASKS),
        "total_videos": 0,
        "total_chunks": 1,
        "chunks_size": 1000,
        "fps": 30,
        "splits": {"train": f"0:{len(lengths)}"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
        if video
        else None,
        "features": {name: feature_to_json(feature) for name, feature in features.items()},
    }
    (meta / "info.json").write_text(json.dumps(info, indent=4))


def edit_info(root: Path, **changes: Any) -> None:
    """Change keys of info.json; a value of None in ``changes`` stays null."""
    path = root / "meta" / "info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
