"""What a v3.0 dataset holds so far, and where the next episode goes: arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.format.lerobot_v3 import episode_files
from roboreel.format.places import NOWHERE, file_at, following, last_place, new_files, place_of
from roboreel.schema import ClipTable, EpisodeTable, Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from roboreel.format.places import Place
    from roboreel.schema import Feature

__all__ = ["RECORDED_VERSION", "Ledger", "describe_episode", "empty_manifest", "number_tasks"]

RECORDED_VERSION = "v3.0"
"""The version that can grow: the others have one episode to a file, and are not written to."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a dataset holds so far; a new one follows each saved episode."""

    about: Manifest
    """The dataset without its episodes."""
    num_episodes: int
    num_rows: int
    last_data: Place
    """Chunk and file number of the last data file."""
    last_videos: Mapping[str, Place]
    last_episodes: Place
    """Chunk and file number of the last file of the episode table."""

    @classmethod
    def of(cls, manifest: Manifest) -> Ledger:
        """Return the ledger of a dataset."""
        episodes = manifest.episodes
        return cls(
            about=replace(manifest, episodes=_no_episodes(manifest.video_files), problems=()),
            num_episodes=int(episodes.number[-1]) + 1 if len(episodes) else 0,
            num_rows=episodes.num_rows,
            last_data=last_place(manifest.data_files),
            last_videos={
                camera: last_place(files) for camera, files in manifest.video_files.items()
            },
            last_episodes=max(map(place_of, episode_files(manifest.root)), default=NOWHERE),
        )

    def after(self, episode: Manifest) -> Ledger:
        """Return the ledger that follows once an episode is saved: see `describe_episode`."""
        return replace(
            self,
            about=replace(self.about, tasks=episode.tasks, splits=episode.splits),
            num_episodes=self.num_episodes + 1,
            num_rows=self.num_rows + episode.episodes.num_rows,
            last_data=last_place(episode.data_files),
            last_videos={
                camera: last_place(files) for camera, files in episode.video_files.items()
            },
            last_episodes=following(self.last_episodes, self.about.files_per_chunk),
        )


def number_tasks(known: Mapping[int, str], texts: Sequence[str]) -> dict[int, str]:
    """Return the numbered tasks, new ones after those that are known."""
    numbered = dict(known)
    there = set(numbered.values())
    for text in dict.fromkeys(texts):
        if text not in there:
            numbered[max(numbered, default=-1) + 1] = text
    return numbered


def describe_episode(ledger: Ledger, length: int, tasks: Sequence[str]) -> Manifest:
    """Return a manifest that lists the next episode alone, at its place in new files.

    Args:
        ledger: What there is so far.
        length: Frames of the episode.
        tasks: Its tasks, each once.
    """
    about = ledger.about
    clip = ClipTable(np.zeros(1, np.int64), np.zeros(1), np.full(1, length / about.fps))
    video_files = {
        camera: file_at(following(ledger.last_videos[camera], about.files_per_chunk), files)
        for camera, files in about.video_files.items()
    }
    count = ledger.num_episodes
    grown = dict(about.splits) == {"train": f"0:{count}"} or not about.splits
    return replace(
        about,
        tasks=number_tasks(about.tasks, tasks),
        episodes=EpisodeTable(
            number=np.array([count]),
            start=np.array([ledger.num_rows]),
            length=np.array([length]),
            data_file=np.zeros(1, np.int64),
            data_row=np.zeros(1, np.int64),
            clips=dict.fromkeys(video_files, clip),
            task_bounds=np.array([0, len(tasks)]),
            task_codes=np.arange(len(tasks)),
            task_texts=tuple(tasks),
        ),
        data_files=file_at(following(ledger.last_data, about.files_per_chunk), about.data_files),
        video_files=video_files,
        splits={"train": f"0:{count + 1}"} if grown else about.splits,
    )


def empty_manifest(
    root: Path, *, fps: float, features: Mapping[str, Feature], robot_type: str | None
) -> Manifest:
    """Return the manifest of a dataset without episodes."""
    cameras = [name for name, feature in features.items() if feature.dtype == "video"]
    files = new_files(RECORDED_VERSION, 0, cameras=cameras, episodes_per_file=1)
    return Manifest(
        root=root,
        version=RECORDED_VERSION,
        fps=fps,
        features=features,
        tasks={},
        episodes=_no_episodes(cameras),
        data_files=files.data,
        video_files=files.videos,
        robot_type=robot_type,
        splits={"train": "0:0"},
    )


def _no_episodes(cameras: Iterable[str]) -> EpisodeTable:
    none = np.empty(0, np.int64)
    clips = ClipTable(none, np.empty(0), np.empty(0))
    return EpisodeTable(
        number=none,
        start=none,
        length=none,
        data_file=none,
        data_row=none,
        clips=dict.fromkeys(cameras, clips),
        task_bounds=np.zeros(1, np.int64),
        task_codes=none,
        task_texts=(),
    )
