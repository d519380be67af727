"""Chunk and file numbers: how new files are named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count as count_from
from typing import TYPE_CHECKING

import numpy as np

from roboreel.distinct import distinct
from roboreel.format.limits import FILES_PER_CHUNK
from roboreel.format.templates import template_fields
from roboreel.schema import FileSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

    from numpy.typing import NDArray

    Place = tuple[int, int]

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
NOWHERE: Place = (0, -1)
"""The place before the first file."""

_EPISODES_PATH = "meta/episodes/chunk-{:03d}/file-{:03d}.parquet"
_NUMBERS = re.compile(r"chunk-(\d+)/file-(\d+)\.parquet$")
_DATA_PATH_V2 = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
_VIDEO_PATH_V2 = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"


def following(place: Place, files_per_chunk: int = FILES_PER_CHUNK) -> Place:
    """Return the chunk and file number after a place.

    Examples:
        >>> following((0, 7)), following((0, 999)), following((0, 7), 8)
        ((0, 8), (1, 0), (1, 0))
    """
    chunk, file = place
    return (chunk, file + 1) if file + 1 < files_per_chunk else (chunk + 1, 0)


def episodes_path(place: Place) -> str:
    """Return the path of a file of the episode table."""
    return _EPISODES_PATH.format(*place)


def place_of(path: PurePath) -> Place:
    """Return the chunk and file number in the name of a file of the episode table."""
    match = _NUMBERS.search(path.as_posix())
    return NOWHERE if match is None else (int(match[1]), int(match[2]))


def last_place(files: FileSet) -> Place:
    """Return the chunk and file number of the last of these v3.0 files."""
    numbers = files.numbers
    places = zip(numbers["chunk_index"].tolist(), numbers["file_index"].tolist(), strict=True)
    return max(places, default=NOWHERE)


def files_after(last: Place, count: int, like: FileSet, files_per_chunk: int) -> FileSet:
    """Return the v3.0 files that follow a place, of the kind of others."""
    places = [last]
    for _ in range(count):
        places.append(following(places[-1], files_per_chunk))
    chunk, file = np.array(places[1:], np.int64).reshape(-1, 2).T
    return FileSet(like.template, {"chunk_index": chunk, "file_index": file}, like.constants)


@dataclass(frozen=True, slots=True, eq=False)
class NewFiles:
    """The files of a dataset that is written in one go."""

    file: NDArray[np.int64]
    """Which data file, and which file of each camera, an episode is in, ``(E,)``."""
    data: FileSet
    videos: Mapping[str, FileSet]
    """By camera that is stored as video."""


def new_files(
    version: str, num_episodes: int, *, cameras: Sequence[str], episodes_per_file: int
) -> NewFiles:
    """Return the files of a new dataset, named as its version names them.

    Args:
        version: LeRobot's name of the layout: ``v2.0``, ``v2.1`` or ``v3.0``.
        num_episodes: How many episodes there will be.
        cameras: The cameras that are stored as video.
        episodes_per_file: Episodes to a file; v2.0 and v2.1 have one to a file always.
    """
    per_file = episodes_per_file if version.startswith("v3") else 1
    file = np.arange(num_episodes, dtype=np.int64) // per_file

    def named(camera: str | None) -> FileSet:
        return place_files(
            version,
            None,
            camera=camera,
            files_per_chunk=FILES_PER_CHUNK,
            places=None,
            numbers=distinct(file),
        )

    return NewFiles(file, named(None), {camera: named(camera) for camera in cameras})


def place_files(
    version: str,
    old: FileSet | None,
    *,
    camera: str | None,
    files_per_chunk: int,
    places: Sequence[int | None] | None,
    numbers: Sequence[int] | NDArray[np.int64],
) -> FileSet:
    """Return the data files, or the videos of a camera, of a dataset that is made from others.

    Args:
        version: LeRobot's name of the layout.
        old: Files of the same kind, whose names are followed; None for LeRobot's own names.
        camera: The camera; None for data.
        files_per_chunk: How many a folder takes; before v3.0, how many episodes.
        places: If files stay where they are, which of the old ones they are; None for one that gets
            a name after all old ones.
        numbers: The number of the first episode in each, for files that are named by it.
    """
    grouped = version.startswith("v3")
    names = (VIDEO_PATH, DATA_PATH) if grouped else (_VIDEO_PATH_V2, _DATA_PATH_V2)
    template = (names[0] if camera else names[1]) if old is None else old.template
    constants = {"video_key": camera} if camera and "{video_key}" in template else {}
    if places is not None and old is not None:
        columns = dict(old.numbers)
        if None in places:
            new = files_after(last_place(old), places.count(None), old, files_per_chunk)
            columns = {
                name: np.append(column, new.numbers[name]) for name, column in columns.items()
            }
        after = count_from(len(old))
        kept = [next(after) if place is None else place for place in places]
        return FileSet(template, {n: column[kept] for n, column in columns.items()}, constants)
    number = np.array(numbers, np.int64)
    used = template_fields(template)
    place = number if used & {"episode_index", "episode_chunk"} else np.arange(len(number))
    fields = {
        "chunk_index": place // files_per_chunk,
        "file_index": place % files_per_chunk,
        "episode_chunk": number // files_per_chunk,
        "episode_index": number,
    }
    if grouped:  # the episode table says so of every file
        used |= {"chunk_index", "file_index"}
    columns = {name: column for name, column in fields.items() if name in used}
    return FileSet(template, columns, constants)
