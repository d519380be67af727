"""Datasets with video to measure on: generated at any keyframe distance, and real footage."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roboreel import open_dataset
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.format import write_manifest
from roboreel.format.places import DATA_PATH, VIDEO_PATH
from roboreel.format.statistics import read_episode_stats, read_stats
from roboreel.format.write_data import write_data_file
from roboreel.schema import ClipTable, FileSet
from roboreel.video.encode import encode_video
from roboreel.video.encoding import Encoding
from roboreel.video.splice import join_videos

if TYPE_CHECKING:
    from roboreel.dataset import Dataset

__all__ = ["REAL", "copy_as_v30", "generate", "with_keyframes_every"]

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "unitree_g1_v21"
"""Four episodes of a Unitree G1, v2.1, in a folder beside the project's; not everywhere."""


def generate(root: Path, *, episodes: int, frames: int, size: tuple[int, int]) -> Path:
    """Make a dataset of the simulated arm: two cameras, AV1, a keyframe at every other image."""
    return make_demo_dataset(root, DemoSpec(episodes=episodes, frames=frames, size=size))


def with_keyframes_every(distance: int, source: Path, root: Path) -> Path:
    """Copy a v3.0 dataset, its videos encoded anew with another distance of keyframes."""
    shutil.copytree(source, root)
    dataset = open_dataset(source)
    for camera, files in dataset.manifest.video_files.items():
        for file in range(len(files)):
            held = np.flatnonzero(dataset.manifest.episodes.clips[camera].file == file)
            images = (
                image
                for number in held.tolist()
                for image in dataset.episodes[number].stream(camera, layout="hwc")
            )
            encoding = Encoding("av1", keyframe_distance=distance)
            encode_video(root / files[file], images, fps=dataset.fps, encoding=encoding)
    return root


def copy_as_v30(source: Path, root: Path) -> Path:
    """Write a v3.0 twin of a v2.1 dataset: the same values and the very same packets."""
    dataset = open_dataset(source)
    old = dataset.manifest
    files = {"chunk_index": np.zeros(1, np.int64), "file_index": np.zeros(1, np.int64)}
    one = np.zeros(len(old.episodes), np.int64)
    clips = {}
    for camera, clip in old.episodes.clips.items():
        out = root / VIDEO_PATH.format(video_key=camera, chunk_index=0, file_index=0)
        out.parent.mkdir(parents=True)
        paths = [source / old.video_files[camera][int(file)] for file in clip.file]
        starts = np.asarray([float(start) for start in join_videos(paths, out)])
        clips[camera] = ClipTable(one, starts, starts + old.episodes.length / old.fps)
    manifest = replace(
        old,
        root=root,
        version="v3.0",
        data_files=FileSet(DATA_PATH, files),
        video_files={c: FileSet(VIDEO_PATH, files, {"video_key": c}) for c in clips},
        episodes=replace(old.episodes, clips=clips, data_file=one, data_row=old.episodes.start),
        extra={},
    )
    _write_values(dataset, root)
    stats = [stats for _, stats in read_episode_stats(old)]
    write_manifest(manifest, stats=read_stats(old), episode_stats=stats)
    return root


def _write_values(dataset: Dataset, root: Path) -> None:
    names = [name for name, feature in dataset.features.items() if feature.dtype != "video"]
    write_data_file(
        root / DATA_PATH.format(chunk_index=0, file_index=0),
        (episode.read(names) for episode in dataset.episodes),
        dataset.features,
    )
