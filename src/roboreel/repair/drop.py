"""Episodes that leave a dataset because they are named: what stays is numbered anew."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check.context import Context
from roboreel.check.data_file import DataFile
from roboreel.check.result import Findings
from roboreel.errors import EpisodeNotFoundError
from roboreel.files import copy_file
from roboreel.format import read_manifest
from roboreel.format.counters import EPISODE_NUMBER
from roboreel.format.edits import Difference, FileEdit, edit_json
from roboreel.format.episode_edits import drop_entries
from roboreel.format.hub import dataset_folder
from roboreel.format.info import read_info
from roboreel.format.info_edits import read_raw_info, with_counts, with_splits
from roboreel.format.paths import INFO_PATH
from roboreel.repair.changes import PlannedChange, aside, remove, written
from roboreel.repair.plan import RepairPlan
from roboreel.spans.sources import refuse_source
from roboreel.storage.rewrite import rewrite_rows

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import FileSet

__all__ = ["plan_drop"]


def plan_drop(path: str | os.PathLike[str], numbers: Sequence[int]) -> RepairPlan:
    """Return the plan by which episodes leave a dataset. The others are numbered anew, from 0.

    Statistics are not part of it: `plan_repair` finds them wrong afterwards.

    Args:
        path: The dataset's folder.
        numbers: The numbers of the episodes that leave.

    Raises:
        EpisodeNotFoundError: A number that no episode has, or no episode would stay.
        CorruptFileError: A data file cannot be read that also holds episodes that stay.
    """
    root = dataset_folder(path)
    refuse_source(root, "repaired")
    context = Context(read_manifest(root))
    drop = _Drop.of(context, numbers)
    files = _grouped(drop) if context.manifest.version.startswith("v3") else _single(drop)
    changes = [*files, *_described(drop)]
    return RepairPlan.of(root, Findings(root, "metadata"), (), changes)


@dataclass(frozen=True, eq=False)
class _Drop:
    """Which episodes stay, and what becomes of them."""

    context: Context
    kept: NDArray[np.int64]
    """Positions of the episodes that stay; its own place is an episode's new number."""
    start: NDArray[np.int64]
    """The first row that each of them will have."""

    @classmethod
    def of(cls, context: Context, numbers: Sequence[int]) -> _Drop:
        """Return what becomes of a dataset without some episodes."""
        episodes = context.manifest.episodes
        stays = np.ones(len(episodes), bool)
        stays[episodes.positions_of(numbers)] = False
        kept = np.flatnonzero(stays)
        if not len(kept):
            raise EpisodeNotFoundError(
                f"No episode would stay: name fewer to drop, of {str(context.root)!r}."
            )
        order = np.argsort(episodes.start[kept], kind="stable")
        length = episodes.length[kept]
        start = np.empty_like(length)
        start[order] = np.cumsum(length[order]) - length[order]
        return cls(context, kept, start)

    def place(self, position: int) -> int | None:
        """Return the new number of an episode; None if it leaves."""
        found = int(np.searchsorted(self.kept, position))
        stays = found < len(self.kept) and self.kept[found] == position
        return found if stays else None

    def size_bytes(self, file: str) -> int:
        """Return the size of a file."""
        return self.context.listing.size_bytes(file)


def _grouped(drop: _Drop) -> Iterator[PlannedChange]:
    """Yield what becomes of files that several episodes share."""
    context = drop.context
    for number, positions in enumerate(context.positions_by_data_file):
        file = context.manifest.data_files[number]
        places = [drop.place(position) for position in positions.tolist()]
        if all(place is None for place in places):
            yield from _asides(drop, file)
            continue
        data = DataFile(context, number, reads_values=False)
        try:
            edit = _rewritten(drop, data, file)
        finally:
            data.close()
        if edit is not None:
            yield written(edit, ())
    for _, file, positions in context.video_files():
        if all(drop.place(position) is None for position in positions.tolist()):
            yield from _asides(drop, file)


def _asides(drop: _Drop, file: str) -> Iterator[PlannedChange]:
    if file in drop.context.listing:
        yield aside(file, (), drop.size_bytes(file))


def _single(drop: _Drop) -> Iterator[PlannedChange]:
    """Yield what becomes of files of one episode each, whose names are their numbers."""
    context, manifest = drop.context, drop.context.manifest
    for new, old in enumerate(drop.kept.tolist()):
        if new == old:
            continue
        data = DataFile(context, int(manifest.episodes.data_file[old]), reads_values=False)
        try:
            edit = _rewritten(drop, data, manifest.data_files[new])
        finally:
            data.close()
        if edit is not None:
            yield written(edit, ())
        for files in manifest.video_files.values():
            if files[old] in context.listing:
                yield written(_copied(drop, files, old, new), ())
    for files in (manifest.data_files, *manifest.video_files.values()):
        for old in range(len(drop.kept), len(files)):
            if files[old] in context.listing:
                yield remove(files[old], (), drop.size_bytes(files[old]))


def _copied(drop: _Drop, files: FileSet, old: int, new: int) -> FileEdit:
    says = Difference("video of episode", old, new)
    copy = partial(_copy, files[old])
    return FileEdit(files[new], (says,), copy, drop.size_bytes(files[old]))


def _rewritten(drop: _Drop, data: DataFile, target: str) -> FileEdit | None:
    """Return how the rows of a data file are numbered anew, without those that leave."""
    stays = np.ones(data.num_rows, bool)
    columns = {
        name: np.asarray(data.counters[name].values).astype(np.int64)
        for name in (EPISODE_NUMBER, "index")
        if name in data.counters and data.counters[name].values is not None
    }
    before = {name: values.copy() for name, values in columns.items()}
    spans = data.spans
    for position, start, stop in zip(
        spans.position.tolist(), spans.start.tolist(), spans.stop.tolist(), strict=True
    ):
        new = drop.place(position)
        if new is None:
            stays[start:stop] = False
            continue
        values = {EPISODE_NUMBER: new, "index": drop.start[new] + np.arange(stop - start)}
        for name, column in columns.items():
            column[start:stop] = values[name]
    changed = [name for name in columns if not np.array_equal(columns[name], before[name])]
    if stays.all() and not changed and target == data.path:
        return None
    rows = np.flatnonzero(stays)
    says = Difference("rows", data.num_rows, len(rows)), Difference("numbers", "old", "new")
    write = partial(_rewrite, data.path, rows, {n: column[rows] for n, column in columns.items()})
    size = drop.size_bytes(data.path) * len(rows) // max(1, data.num_rows)
    return FileEdit(target, says if len(rows) < data.num_rows else says[1:], write, size)


def _described(drop: _Drop) -> Iterator[PlannedChange]:
    """Yield what becomes of the metadata."""
    manifest = drop.context.manifest
    for edit in drop_entries(manifest, drop.kept, drop.start):
        yield written(edit, ())
    raw, count = read_raw_info(manifest.root), len(drop.kept)
    frames = int(manifest.episodes.length[drop.kept].sum())
    counts = {"episodes": count, "frames": frames, "videos": count * len(manifest.video_files)}
    counts["chunks"] = -(-count // read_info(manifest.root).chunks_size)
    info = edit_json(INFO_PATH, raw, with_splits(with_counts(raw, counts), count))
    if info is not None:
        yield written(info, ())


def _rewrite(
    file: str, rows: NDArray[np.int64], columns: Mapping[str, Any], root: Path, out: Path
) -> None:
    rewrite_rows(root / file, out, rows=rows, columns=columns)


def _copy(file: str, root: Path, out: Path) -> None:
    copy_file(root / file, out)
