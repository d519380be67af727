"""What a v3.0 dataset holds so far, and where the next episode goes: arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.format.places import (
    NOWHERE,
    files_after,
    following,
    last_place,
    new_files,
    place_of,
)
from roboreel.format.tables_v3 import episode_files
from roboreel.schema import ClipTable, EpisodeTable, Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from roboreel.format.places import Place
    from roboreel.schema import Feature

RECORDED_VERSION = "v3.0"
"""The version that can grow: the others have one episode to a file, and are not written to."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a dataset holds so far; a new one follows each save."""

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

    def after(self, new: Manifest) -> Ledger:
        """Return the ledger that follows once episodes are saved: see `describe_new`."""
        return replace(
            self,
            about=replace(self.about, tasks=new.tasks, splits=new.splits),
            num_episodes=self.num_episodes + len(new.episodes),
            num_rows=self.num_rows + new.episodes.num_rows,
            last_data=last_place(new.data_files),
            last_videos={camera: last_place(files) for camera, files in new.video_files.items()},
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


def describe_new(
    ledger: Ledger, lengths: Sequence[int], tasks: Sequence[Sequence[str]]
) -> Manifest:
    """Return a manifest that lists the next episodes alone: one new data file, and a video of each.

    Args:
        ledger: What there is so far.
        lengths: Frames of each episode.
        tasks: The tasks of each, each once.
    """
    about, new = ledger.about, len(lengths)
    length, none = np.array(lengths, np.int64), np.zeros(new, np.int64)
    rows = np.cumsum(length) - length
    clips = ClipTable(np.arange(new), np.zeros(new), length / about.fps)
    video_files = {
        camera: files_after(ledger.last_videos[camera], new, files, about.files_per_chunk)
        for camera, files in about.video_files.items()
    }
    count = ledger.num_episodes
    grown = dict(about.splits) == {"train": f"0:{count}"} or not about.splits
    texts = [text for several in tasks for text in several]
    return replace(
        about,
        tasks=number_tasks(about.tasks, texts),
        episodes=EpisodeTable(
            number=np.arange(count, count + new),
            start=ledger.num_rows + rows,
            length=length,
            data_file=none,
            data_row=rows,
            clips=dict.fromkeys(video_files, clips),
            task_bounds=np.cumsum([0, *map(len, tasks)]),
            task_codes=np.arange(len(texts)),
            task_texts=tuple(texts),
        ),
        data_files=files_after(ledger.last_data, 1, about.data_files, about.files_per_chunk),
        video_files=video_files,
        splits={"train": f"0:{count + new}"} if grown else about.splits,
    )


def empty_manifest(
    root: Path, *, fps: float, features: Mapping[str, Feature], robot_type: str | None
) -> Manifest:
    """Return the manifest of a dataset without episodes."""
    cameras = [name for name, feature in features.items() if feature.is_video]
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
