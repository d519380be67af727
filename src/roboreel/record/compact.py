"""Joining small files: planned by their sizes, done as one commit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.commit import ChangeSet, Commit, Workshop, finish_commit, locked
from roboreel.format import read_manifest
from roboreel.format.append_v3 import check_appendable
from roboreel.format.edits import FileEdit
from roboreel.format.hub import writable_folder
from roboreel.format.info import read_info
from roboreel.format.limits import file_limits
from roboreel.format.places import place_of
from roboreel.format.tables_v3 import episode_columns, episode_files
from roboreel.parquet.parquet_table import open_parquet
from roboreel.parquet.writing import column_key, join_parquet, join_tables
from roboreel.schema import ClipTable
from roboreel.video.splice import join_videos, joining_key

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.format.edits import How
    from roboreel.format.limits import FileLimits
    from roboreel.schema import FileSet, Manifest

    Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Compaction(ChangeSet):
    """Which files are joined; paths are below the dataset's folder, in order.

    A joined file takes the name of its first part and begins with its contents, so a reader that
    still follows the old metadata finds what it expects.
    """

    data: tuple[tuple[str, ...], ...] = ()
    """The tail of the data files, in groups; a group of one stays as it is."""
    videos: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """By camera, groups of two files or more."""
    episodes: tuple[str, ...] = ()
    """The tail of the episode table, which becomes one file."""

    @classmethod
    def of(
        cls,
        root: Path,
        data: tuple[tuple[str, ...], ...],
        videos: Mapping[str, tuple[tuple[str, ...], ...]],
        episodes: tuple[str, ...],
    ) -> Compaction:
        """Return the plan that joins groups of files."""
        plan = cls(root, None, (), (), data, videos, episodes)
        # A table of one file is written anew too, if files that it names are joined.
        alone = [episodes] if len(episodes) == 1 else []
        groups = [*plan.groups, *alone]
        return replace(plan, files=tuple(f for group in groups for f in _joined(root, group)))

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """All groups of two files or more."""
        videos = (group for several in self.videos.values() for group in several)
        return [group for group in (*self.data, *videos, self.episodes) if len(group) > 1]

    def __bool__(self) -> bool:
        return self.num_removed > 0

    @property
    def num_removed(self) -> int:
        """How many files fewer there will be."""
        return sum(one.how == "removed" for one in self.files)

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines: which files become which, and how."""
        yield from (f"{len(group)} files become {group[0]}" for group in self.groups)
        yield from super().lines()

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        groups = {"data": self.data, "videos": dict(self.videos), "episodes": self.episodes}
        return {**super().to_json(), **groups}


def _joined(root: Path, group: Sequence[str]) -> Iterator[FileEdit]:
    """Yield what becomes of files that are joined."""
    sizes = [(root / path).stat().st_size for path in group]
    how: How = "remuxed" if group[0].endswith(".mp4") else "rewritten"
    yield FileEdit(group[0], size_bytes=sum(sizes), how=how)
    for path, size in zip(group[1:], sizes[1:], strict=True):
        yield FileEdit(path, size_bytes=size, how="removed")


def compact_dataset(path: str | os.PathLike[str], *, dry_run: bool = False) -> Compaction:
    """Join the small files at the end of a v3.0 dataset; nothing is encoded again.

    Args:
        path: The dataset's folder.
        dry_run: Whether only to return the plan.

    Returns:
        What was done, or would be.

    Raises:
        DatasetInUseError: Another process records into the dataset.
    """
    root = writable_folder(path)
    if dry_run:
        return plan_compaction(read_manifest(root))
    read_info(root)  # before the lock, which makes a folder
    with locked(Workshop(root)):
        finish_commit(Workshop(root))
        return compact(root)


def compact(root: Path) -> Compaction:
    """Do what `compact_dataset` does, under a lock that the caller holds."""
    manifest = read_manifest(root)
    plan = plan_compaction(manifest)
    if plan:
        _apply(manifest, plan)
    return plan


def plan_compaction(manifest: Manifest) -> Compaction:
    """Return which files can be joined.

    Of each kind of file only the tail is joined: what follows the last large one. So a growing
    dataset is not rewritten again and again, and LeRobot, which reads data files and episodes in
    the order of their names, finds every row in its place at any moment.
    """
    check_appendable(manifest)
    if manifest.problems or not _in_order(manifest):
        return Compaction.of(manifest.root, (), {}, ())
    table = _EpisodeFiles.of(manifest)
    limits = file_limits(manifest)
    data = _tail(
        manifest.root,
        manifest.data_files,
        manifest.episodes.data_file,
        table,
        limits.data_bytes,
        column_key,
    )
    data = data[next((i for i, group in enumerate(data) if len(group) > 1), len(data)) :]
    videos, changed = {}, [group[1] for group in data if len(group) > 1]
    first = _first_episode(manifest.episodes.data_file, changed)
    for camera, files in manifest.video_files.items():
        file = manifest.episodes.clips[camera].file
        groups = _tail(manifest.root, files, file, table, limits.video_bytes, joining_key)
        groups = tuple(group for group in groups if len(group) > 1)
        first = min(first, _first_episode(file, [group[0] for group in groups]))
        videos[camera] = _paths(files, groups)
    episodes = table.tail(first, limits)
    return Compaction.of(manifest.root, _paths(manifest.data_files, data), videos, episodes)


def group_tail(sizes: Sequence[int], limit_bytes: int) -> Groups:
    """Return the files after the last large one, in groups within a size limit.

    Examples:
        >>> group_tail([10, 90, 20, 30, 40, 40], 100)
        ((2, 3, 4), (5,))
    """
    start = len(sizes)
    while start > 0 and sizes[start - 1] * 2 < limit_bytes:
        start -= 1
    groups: list[list[int]] = []
    for file in range(start, len(sizes)):
        if groups and sum(sizes[i] for i in groups[-1]) + sizes[file] <= limit_bytes:
            groups[-1].append(file)
        else:
            groups.append([file])
    return tuple(map(tuple, groups))


@dataclass(frozen=True, slots=True)
class _EpisodeFiles:
    """The files of the episode table that can be joined: those at the end, of the same columns."""

    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    """Position of the first episode of each."""

    @classmethod
    def of(cls, manifest: Manifest) -> _EpisodeFiles:
        """Return those of a dataset."""
        found = episode_files(manifest.root)
        keys = [column_key(path) for path in found]
        same = len(keys)
        while same > 0 and keys[same - 1] == keys[-1]:
            same -= 1
        counts = [_num_rows(path) for path in found]
        starts = np.cumsum([0, *counts])[:-1].tolist()
        return cls(
            tuple(path.relative_to(manifest.root).as_posix() for path in found[same:]),
            tuple(path.stat().st_size for path in found[same:]),
            tuple(starts[same:]),
        )

    def tail(self, first_episode: int, limits: FileLimits) -> tuple[str, ...]:
        """Return the files to join, if the places of an episode and of later ones may change."""
        small = group_tail(self.sizes, limits.episodes_bytes)
        start = small[-1][0] if small and len(small[-1]) > 1 else len(self.paths)
        if self.starts and first_episode < np.iinfo(np.int64).max:
            holding = int(np.searchsorted(self.starts, first_episode, side="right")) - 1
            start = min(start, max(holding, 0))
        return self.paths[start:]


def _tail(
    root: Path,
    files: FileSet,
    file_of_episode: NDArray[np.int64],
    table: _EpisodeFiles,
    limit_bytes: int,
    key: Callable[[Path], Hashable],
) -> Groups:
    """Return the groups of one kind of file; only files with equal keys can be joined."""
    if not table.starts or not len(files):
        return ()
    # Only files of episodes that these files of the table list: no other is rewritten.
    floor = table.starts[0]
    untouchable = int(file_of_episode[:floor].max(initial=-1)) + 1
    sizes = [(root / files[i]).stat().st_size for i in range(untouchable, len(files))]
    groups = group_tail(sizes, limit_bytes)
    return tuple(
        tuple(untouchable + i for i in part)
        for group in groups
        for part in _alike(group, [key(root / files[untouchable + i]) for i in group])
    )


def _alike(group: Sequence[int], keys: Sequence[Hashable]) -> list[list[int]]:
    """Return files that follow each other and have equal keys."""
    pairs = zip(keys, group, strict=True)
    return [[file for _, file in part] for _, part in groupby(pairs, key=itemgetter(0))]


def _in_order(manifest: Manifest) -> bool:
    """Whether episodes, rows, files and the names of files are all in the same order."""
    episodes = manifest.episodes
    columns = [episodes.start, episodes.data_file, *(c.file for c in episodes.clips.values())]
    names = [manifest.data_files[i] for i in range(len(manifest.data_files))]
    return all((np.diff(column) >= 0).all() for column in columns) and names == sorted(names)


def _first_episode(file_of_episode: NDArray[np.int64], files: Sequence[int]) -> int:
    """Return the position of the first episode in any of these files."""
    if not files:
        return int(np.iinfo(np.int64).max)
    return int(np.searchsorted(file_of_episode, min(files)))


def _paths(files: FileSet, groups: Groups) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(files[i] for i in group) for group in groups)


def _num_rows(path: Path) -> int:
    with open_parquet(path) as table:
        return table.num_rows


def _apply(manifest: Manifest, plan: Compaction) -> None:
    """Join the files; between any two steps, readers find every row and image in its place.

    While the joined data files appear one by one, LeRobot would count rows twice. So the whole tail
    first goes into its first file: rows of the other files then come after the last one that counts.
    """
    root = manifest.root
    commit = Commit(Workshop(root))
    starts: dict[str, float] = {}
    for groups in plan.videos.values():
        for group in groups:
            joined = join_videos([root / path for path in group], commit.add(group[0]))
            starts |= {path: float(start) for path, start in zip(group, joined, strict=True)}
    if len(plan.data) > 1:
        tail = [root / path for group in plan.data for path in group]
        join_parquet(tail, commit.add(plan.data[0][0]))
    for group in plan.data[1:] or plan.data:
        if len(group) > 1:
            join_parquet([root / path for path in group], commit.add(group[0]))
    if plan.episodes:
        parts = [root / path for path in plan.episodes]
        count = len(manifest.episodes)
        listed = np.arange(count - sum(map(_num_rows, parts)), count)
        place = place_of(PurePosixPath(plan.episodes[0]))
        columns = episode_columns(_moved(manifest, plan, starts), place, listed)
        replaced = {name: column for name, column in columns.items() if "/" in name}
        join_tables(parts, commit.add(plan.episodes[0]), replaced)
    # The old table first: as long as it is there, its episodes are looked for in the old files.
    for path in plan.episodes[1:]:
        commit.remove(path)
    for group in plan.groups:
        for path in group[1:] if group != plan.episodes else ():
            commit.remove(path)
    if len(plan.data) > 1:
        join_parquet([root / path for path in plan.data[0]], commit.add(plan.data[0][0]))
    commit.run()


def _moved(manifest: Manifest, plan: Compaction, starts: Mapping[str, float]) -> Manifest:
    """Return where the episodes lie once the files are joined.

    Args:
        manifest: Where they lie now.
        plan: Which files are joined.
        starts: By video file, when it starts in the file that it is joined to.
    """
    episodes = manifest.episodes
    clips = {}
    for camera, groups in plan.videos.items():
        files, old = manifest.video_files[camera], episodes.clips[camera]
        shift = np.array([starts.get(files[i], 0.0) for i in old.file.tolist()])
        clips[camera] = ClipTable(
            _heads(files, groups)[old.file], old.start_s + shift, old.stop_s + shift
        )
    data_file = _heads(manifest.data_files, plan.data)[episodes.data_file]
    return replace(manifest, episodes=replace(episodes, data_file=data_file, clips=clips))


def _heads(files: FileSet, groups: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return the file that each file becomes: the first of its group."""
    head = {path: group[0] for group in groups for path in group}
    names = [files[i] for i in range(len(files))]
    place = {name: i for i, name in enumerate(names)}
    return np.array([place[head.get(name, name)] for name in names], np.int64)
