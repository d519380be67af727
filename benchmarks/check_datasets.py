"""Datasets to check: a few episodes over and over, as one large clean dataset, written fast."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel import open_dataset
from roboreel.format import write_manifest
from roboreel.format.counters import COUNTERS, counter_columns
from roboreel.format.places import new_files
from roboreel.format.statistics import read_stats
from roboreel.format.write_data import write_data_file
from roboreel.schema import ClipTable, EpisodeTable
from roboreel.stats import Accumulator
from roboreel.video.splice import join_videos

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.dataset import Dataset
    from roboreel.format.places import NewFiles
    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

__all__ = ["repeat_episodes", "touch_files"]

# 300 frames of two cameras take about 2 MB a camera: LeRobot starts another file at 200 MB.
_EPISODES_PER_FILE = 100


def repeat_episodes(source: Path, root: Path, *, times: int, version: str) -> Path:
    """Write the episodes of a v2.1 dataset several times over; return the new dataset's folder.

    Every file is there, and holds what the metadata and the statistics say.

    Args:
        source: A v2.1 dataset: a video file for each episode and camera.
        root: Where to write.
        times: How often each episode appears.
        version: ``v2.1`` or ``v3.0``.
    """
    dataset = open_dataset(source)
    old = dataset.manifest
    count = len(old.episodes) * times
    files = new_files(
        version, count, cameras=list(old.video_files), episodes_per_file=_EPISODES_PER_FILE
    )
    starts = {camera: _write_videos(old, root, files, camera) for camera in files.videos}
    episodes = _episodes(old.episodes, files, starts, old.fps)
    stats, episode_stats = _write_values(dataset, root, files, episodes)
    manifest = replace(
        old,
        root=root,
        version=version,
        data_files=files.data,
        video_files=files.videos,
        episodes=episodes,
        splits={"train": f"0:{count}"},
        extra={},
    )
    write_manifest(manifest, stats=stats, episode_stats=episode_stats)
    return root


def touch_files(manifest: Manifest) -> None:
    """Make an empty file for each data and video file of a dataset that has metadata alone."""
    for files in (manifest.data_files, *manifest.video_files.values()):
        folder = None
        for path in files.paths():
            parent = path.rpartition("/")[0]
            if parent != folder:
                (manifest.root / parent).mkdir(parents=True, exist_ok=True)
                folder = parent
            (manifest.root / path).touch()


def _write_videos(old: Manifest, root: Path, files: NewFiles, camera: str) -> list[float]:
    """Write the video files of a camera, and return when each episode starts in its file."""
    sources = [old.root / path for path in old.video_files[camera].paths()]
    starts: list[float] = []
    for file, path in enumerate(files.videos[camera].paths()):
        out = root / path
        out.parent.mkdir(parents=True, exist_ok=True)
        held = [sources[i % len(sources)] for i in np.flatnonzero(files.file == file).tolist()]
        if len(held) == 1:
            shutil.copyfile(held[0], out)
            starts.append(0.0)
        else:
            starts += map(float, join_videos(held, out))
    return starts


def _episodes(
    old: EpisodeTable, files: NewFiles, starts: dict[str, list[float]], fps: float
) -> EpisodeTable:
    times = len(files.file) // len(old)
    length = np.tile(old.length, times)
    start = np.cumsum(length) - length
    tasks = np.tile(np.diff(old.task_bounds), times)
    return EpisodeTable(
        number=np.arange(len(length)),
        start=start,
        length=length,
        data_file=files.file,
        data_row=start - start[np.searchsorted(files.file, files.file)],
        clips={
            camera: ClipTable(files.file, np.array(begin), np.array(begin) + length / fps)
            for camera, begin in starts.items()
        },
        task_bounds=np.concatenate([[0], np.cumsum(tasks)]),
        task_codes=np.tile(old.task_codes, times),
        task_texts=old.task_texts,
    )


def _write_values(
    dataset: Dataset, root: Path, files: NewFiles, episodes: EpisodeTable
) -> tuple[dict[str, FeatureStats], list[dict[str, FeatureStats]]]:
    """Write the data files, and return the statistics of the dataset and of each episode."""
    names = [name for name, feature in dataset.features.items() if not feature.is_camera]
    values = [episode.read(names) for episode in dataset.episodes]
    cameras = read_stats(dataset.manifest)
    shown = {name: cameras[name] for name in dataset.features if name not in names}
    totals = {name: Accumulator(dataset.features[name].shape) for name in names}
    of_episodes = []
    for file, path in enumerate(files.data.paths()):
        tables = []
        for number in np.flatnonzero(files.file == file).tolist():
            tables.append(_table(values[number % len(values)], episodes, number, dataset.fps))
            of_episodes.append(_add_stats(totals, tables[-1]) | shown)
        write_data_file(root / path, tables, dataset.features, sync=False)
    return {name: total.finish() for name, total in totals.items()} | shown, of_episodes


def _table(
    values: dict[str, Any], episodes: EpisodeTable, number: int, fps: float
) -> dict[str, Any]:
    """Return the values of an episode under another number."""
    counters = counter_columns(
        int(episodes.length[number]),
        episode=number,
        start=int(episodes.start[number]),
        tasks=values["task_index"],
        fps=fps,
    )
    return {**values, **{name: counters[name] for name in COUNTERS if name in values}}


def _add_stats(totals: dict[str, Accumulator], table: dict[str, Any]) -> dict[str, FeatureStats]:
    """Return the statistics of an episode, after adding its values to those of the dataset."""
    stats = {}
    for name, total in totals.items():
        part = Accumulator(total.shape)
        part.update(table[name])
        stats[name] = part.finish()
        total.merge(part)
    return stats
