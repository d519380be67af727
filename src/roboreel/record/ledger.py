"""What a dataset holds so far, and where the next episode goes: arithmetic only."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.format.lerobot_v3 import episode_files
from roboreel.format.write_v3 import CHUNKS_SIZE, DATA_PATH, VIDEO_PATH
from roboreel.schema import ClipTable, EpisodeTable, FileSet, Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path, PurePath

    from roboreel.schema import Feature

    Place = tuple[int, int]

__all__ = ["Ledger", "describe_episode", "empty_manifest", "following", "number_tasks", "place_of"]

_NUMBERS = re.compile(r"chunk-(\d+)/file-(\d+)\.parquet$")
_NOWHERE = (0, -1)


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
            last_data=_last(manifest.data_files),
            last_videos={camera: _last(files) for camera, files in manifest.video_files.items()},
            last_episodes=_last_episodes(manifest.root),
        )

    def after(self, manifest: Manifest, episodes_file: Place) -> Ledger:
        """Return the ledger that follows once an episode is saved, of which ``manifest`` tells."""
        return replace(
            self,
            about=replace(self.about, tasks=manifest.tasks, splits=manifest.splits),
            num_episodes=self.num_episodes + 1,
            num_rows=self.num_rows + manifest.episodes.num_rows,
            last_data=_last(manifest.data_files),
            last_videos={camera: _last(files) for camera, files in manifest.video_files.items()},
            last_episodes=episodes_file,
        )


def following(place: Place) -> Place:
    """Return the chunk and file number after one.

    Examples:
        >>> following((0, 7)), following((0, 999))
        ((0, 8), (1, 0))
    """
    chunk, file = place
    return (chunk, file + 1) if file + 1 < CHUNKS_SIZE else (chunk + 1, 0)


def place_of(path: PurePath) -> Place:
    """Return the chunk and file number that a file of the episode table has in its name."""
    match = _NUMBERS.search(path.as_posix())
    return _NOWHERE if match is None else (int(match[1]), int(match[2]))


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
        camera: _file(files.template, following(ledger.last_videos[camera]), files.constants)
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
        data_files=_file(about.data_files.template, following(ledger.last_data), {}),
        video_files=video_files,
        splits={"train": f"0:{count + 1}"} if grown else about.splits,
    )


def empty_manifest(
    root: Path, *, fps: float, features: Mapping[str, Feature], robot_type: str | None
) -> Manifest:
    """Return the manifest of a dataset without episodes."""
    cameras = [name for name, feature in features.items() if feature.dtype == "video"]
    return Manifest(
        root=root,
        version="v3.0",
        fps=fps,
        features=features,
        tasks={},
        episodes=_no_episodes(cameras),
        data_files=_no_files(DATA_PATH, {}),
        video_files={name: _no_files(VIDEO_PATH, {"video_key": name}) for name in cameras},
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


def _no_files(template: str, constants: Mapping[str, str]) -> FileSet:
    none = np.empty(0, np.int64)
    return FileSet(template, {"chunk_index": none, "file_index": none}, constants)


def _file(template: str, place: Place, constants: Mapping[str, str]) -> FileSet:
    chunk, file = np.array([place[0]]), np.array([place[1]])
    return FileSet(template, {"chunk_index": chunk, "file_index": file}, constants)


def _last(files: FileSet) -> Place:
    columns = files.columns
    places = zip(columns["chunk_index"].tolist(), columns["file_index"].tolist(), strict=True)
    return max(places, default=_NOWHERE)


def _last_episodes(root: Path) -> Place:
    return max((place_of(path) for path in episode_files(root)), default=_NOWHERE)
