"""Data files of episodes that the table does not list: what they hold, and a dataset made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check.video import read_video
from roboreel.edit.plan import plan_edit
from roboreel.edit.recipe import Recipe, whole_episodes
from roboreel.edit.sources import Source
from roboreel.errors import DatasetError, EditError
from roboreel.files import draft_folder, link_file, make_folder
from roboreel.format import read_manifest, write_manifest
from roboreel.format.counters import COUNTERS, EPISODE_NUMBER, TASK_NUMBER
from roboreel.format.limits import FILES_PER_CHUNK
from roboreel.format.places import new_files
from roboreel.format.tables import arrange_episodes
from roboreel.format.templates import numbers_in
from roboreel.parquet.parquet_table import open_parquet
from roboreel.parquet.ragged import TextLists
from roboreel.parquet.rewrite import rewrite_rows
from roboreel.repair.videos import image_times
from roboreel.schema import ClipTable
from roboreel.words import counted, name_episodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.repair.draft import Draft
    from roboreel.schema import Manifest

_SCRATCH = "v3.0"
"""Any number of episodes can lie in a file there."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A data file of frames that no episode of the table uses."""

    file: str
    """Path below the dataset's folder."""
    episodes: tuple[int, ...]
    """The episodes of its rows, one after the other, by the numbers that the rows have."""
    lengths: tuple[int, ...]
    """Rows of each."""
    tasks: tuple[tuple[int, ...], ...]
    """Task numbers of each, in the order in which they occur."""
    columns: tuple[str, ...]
    videos: tuple[tuple[str, str], ...]
    """Cameras and their files, where the name and the number of images fit the rows."""

    @property
    def line(self) -> str:
        """What it holds, in a line."""
        videos = f", with {counted(len(self.videos), 'video')}" if self.videos else ""
        rows = counted(sum(self.lengths), "row")
        return f"{self.file}  (RR105)  holds {name_episodes(self.episodes)}: {rows}{videos}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "file": self.file,
            "episodes": list(self.episodes),
            "rows": sum(self.lengths),
            "videos": dict(self.videos),
        }


def find_unlisted(draft: Draft, strays: Collection[str]) -> tuple[Unlisted, ...]:
    """Return which of some files that no episode uses hold frames, in the order of their names.

    Args:
        draft: The repair.
        strays: Data and video files, by their paths below the dataset's folder.
    """
    found = []
    for file in sorted(strays):
        if not file.endswith(".parquet"):
            continue
        try:
            held = _read(draft.context.root / file, file)
        except (DatasetError, OSError):
            continue  # not rows that anybody can read
        if held is not None:
            found.append(replace(held, videos=tuple(_videos(draft, held, strays))))
    return tuple(found)


def _read(path: Path, file: str) -> Unlisted | None:
    """Return what a file holds; None if these are no frames."""
    with open_parquet(path) as table:
        columns = tuple(table.column_names)
        if not table.num_rows or not COUNTERS.keys() <= set(columns):
            return None
        rows = table.numbers([EPISODE_NUMBER, "frame_index", TASK_NUMBER])
    episode, frame = rows[EPISODE_NUMBER], rows["frame_index"]
    begins = (np.diff(episode) != 0) | (np.diff(frame) <= 0)
    start = np.concatenate([[0], np.flatnonzero(begins) + 1])
    tasks = tuple(
        tuple(dict.fromkeys(part.tolist())) for part in np.split(rows[TASK_NUMBER], start[1:])
    )
    lengths = tuple(np.diff([*start, len(episode)]).tolist())
    return Unlisted(file, tuple(episode[start].tolist()), lengths, tasks, columns, ())


def _videos(draft: Draft, held: Unlisted, strays: Collection[str]) -> Iterable[tuple[str, str]]:
    """Yield cameras and the videos that are named as a data file is, and have an image per row."""
    manifest, rows = draft.manifest, sum(held.lengths)
    numbers = numbers_in(manifest.data_files.template, held.file, {}) or {}
    for camera, files in manifest.video_files.items():
        try:
            video = files.template.format(**numbers, **files.constants)
        except KeyError:
            continue  # the name of the data file does not tell
        if video not in strays:
            continue
        try:
            table, _ = read_video(draft.context.root / video, video, rows)
        except (DatasetError, OSError):
            continue
        if table is not None and len(table.ticks) == rows:
            yield camera, video


def left_out(manifest: Manifest, unlisted: Sequence[Unlisted]) -> tuple[str, ...]:
    """Return the features that some of the files lack, and so the recovered episodes."""
    has = [{*one.columns, *dict(one.videos)} for one in unlisted]
    return tuple(name for name in manifest.features if not all(name in here for here in has))


def check_recovery(root: Path, out: Path, copy: Path | None) -> None:
    """Raise if recovered episodes cannot have a folder.

    Args:
        root: The dataset.
        out: Their folder.
        copy: That of a repaired copy, if there is one.

    Raises:
        EditError: It lies inside of the dataset or the copy, or the other way round.
    """
    for other in (root, copy):
        if other is None:
            continue
        one, two = out.resolve(), other.resolve()
        if one == two or one in two.parents or two in one.parents:
            raise EditError(
                "The recovered episodes become a dataset of their own: choose a folder beside "
                f"{str(other)!r}, not {str(out)!r}."
            )


def recover_unlisted(root: Path, unlisted: Sequence[Unlisted], out: Path) -> None:
    """Write the episodes of unlisted files to a new dataset, which appears whole.

    It has the version of the old one, and its features but those that some of the files lack. Packets
    are copied.

    Args:
        root: The dataset's folder.
        unlisted: The files, one at least.
        out: A new folder.

    Raises:
        EditError: The files differ, so that they cannot be one dataset.
    """
    manifest = read_manifest(root)
    make_folder(out.parent)
    with draft_folder(out) as folder:
        listed = _listed(manifest, unlisted, folder)
        write_manifest(listed)
        pieces = whole_episodes(listed.episodes.length)
        recipe = Recipe(pieces, version=manifest.version, anew=True)
        said = f"recover {counted(len(listed.episodes), 'episode')}"
        plan_edit([Source(folder)], recipe, [said], out).apply()


def _listed(manifest: Manifest, unlisted: Sequence[Unlisted], folder: Path) -> Manifest:
    """Return a dataset that lists the files: rows are numbered anew, and videos linked."""
    gone = left_out(manifest, unlisted)
    features = {name: one for name, one in manifest.features.items() if name not in gone}
    cameras = [name for name, one in features.items() if one.is_video]
    files = new_files(_SCRATCH, len(unlisted), cameras=cameras, episodes_per_file=1)
    counts = [len(one.lengths) for one in unlisted]
    length = np.array([rows for one in unlisted for rows in one.lengths], np.int64)
    number = np.arange(len(length), dtype=np.int64)
    data_file = np.repeat(np.arange(len(unlisted), dtype=np.int64), counts)
    starts: dict[str, list[NDArray[np.float64]]] = {camera: [] for camera in cameras}
    for place, one in enumerate(unlisted):
        make_folder((folder / files.data[place]).parent, sync=False)
        counters = {
            EPISODE_NUMBER: np.repeat(number[data_file == place], one.lengths),
            "index": np.arange(sum(one.lengths)) + int(length[data_file < place].sum()),
        }
        rewrite_rows(manifest.root / one.file, folder / files.data[place], columns=counters)
        first = np.cumsum(one.lengths) - one.lengths
        for camera in cameras:
            video = dict(one.videos)[camera]
            target = folder / files.videos[camera][place]
            make_folder(target.parent, sync=False)
            link_file(manifest.root / video, target)
            table, _ = read_video(manifest.root / video, video, sum(one.lengths))
            if table is None:
                raise EditError(f"The video has changed: {str(manifest.root / video)!r}.")
            starts[camera].append(image_times(table)[first])
    clips = {}
    for camera, times in starts.items():
        start_s = np.concatenate(times)
        clips[camera] = ClipTable(data_file, start_s, start_s + length / manifest.fps)
    texts = [
        [manifest.tasks[task] for task in tasks if task in manifest.tasks]
        for one in unlisted
        for tasks in one.tasks
    ]
    return replace(
        manifest,
        root=folder,
        version=_SCRATCH,
        features=features,
        episodes=arrange_episodes(
            number=number,
            length=length,
            place=number,
            data_file=data_file,
            clips=clips,
            tasks=TextLists.from_lists(texts),
            path=folder,
        ),
        data_files=files.data,
        video_files=files.videos,
        splits={"train": f"0:{len(length)}"},
        files_per_chunk=FILES_PER_CHUNK,
        problems=(),
        state=None,
    )
