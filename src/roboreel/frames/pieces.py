"""Row groups read within the budget: small ones together, large ones in parts."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.distinct import distinct
from roboreel.format.counters import COUNTERS, EPISODE_NUMBER, TASK_NUMBER
from roboreel.parquet.dense import Numbers, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from roboreel.frames.frame_files import FrameFiles
    from roboreel.io.budget import Budget
    from roboreel.schema import Feature, Manifest


_OWNER = "row groups"
# What takes more than this share of the budget is read in parts of half of that.
_SHARE = 16
# However small the budget is: a page takes about this much.
_LEAST_BYTES = 2**16
# While it is read, it is there several times: as pages, as Arrow values, and as an array. Arrow's
# allocator also takes more than it hands out: 20 MB for parts of 4 MB were measured.
_COPIES = 5
_MANY_READS = 256


class Pieces:
    """Row groups of a dataset's files, in parts of some rows: most are one part."""

    def __init__(
        self,
        files: FrameFiles,
        features: Mapping[str, Feature],
        budget: Budget,
        derived: DerivedCounters,
    ) -> None:
        self._files = files
        self._features = features
        self._budget = budget
        self._derived = derived
        self._steps: dict[tuple[int, int, str, int], int] = {}
        self._num_reads = 0

    @property
    def rereads_much(self) -> bool:
        """Whether most row groups that are read had been read before."""
        return self._num_reads > _MANY_READS + 2 * len(self._steps)

    def numbers(
        self, file: int, groups: range, names: Sequence[str]
    ) -> Iterator[tuple[int, dict[str, Numbers]]]:
        """Yield numbers of adjacent row groups: a part's first row in the file, and its values.

        Raises:
            CorruptFileError: They cannot be read.
            TooLargeError: Not even one row fits.
        """
        step = self._rows_at_once(file, groups, names)
        yield from self._parts(file, groups, names, step)

    def held(
        self, name: str, file: int, group: int, rows: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.intp], Any]]:
        """Yield values of some rows of a row group: which of ``rows``, and their values.

        Parts that were read are held under the budget.

        Args:
            name: A feature.
            file: Number of the file.
            group: Number of the row group.
            rows: Rows of the row group, ``(N,)``, in any order.
        """
        step = self._step(file, group, name)
        parts = rows // step
        missing = set()
        # With the step: another limit has other parts.
        key = (self._files.token, name, file, group, step)
        for part in distinct(parts).tolist():
            values = self._budget.get((*key, part))
            if values is None:
                missing.add(part)
            else:
                yield _chosen(parts, part, rows, step, values)
        if missing:
            self._num_reads += 1
            read = self._parts(file, range(group, group + 1), [name], step)
            for part, (_, columns) in zip(range(max(missing) + 1), read, strict=False):
                if part in missing:
                    values = columns[name]
                    if isinstance(values, Numbers):  # What it shares with Arrow is larger.
                        values = Numbers(values.values.copy(), values.nulls)
                    self._budget.put((*key, part), values, int(values.nbytes), owner=_OWNER)
                    # As much was dropped for it, and as much freed after reading it.
                    self._files.note_freed(2 * int(values.nbytes))
                    yield _chosen(parts, part, rows, step, values)

    def _parts(
        self, file: int, groups: range, names: Sequence[str], step: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield parts of adjacent row groups: numbers, or Arrow arrays of texts."""
        opened, bounds = self._files.open(file), self._files.group_bounds(file)
        first, last = int(bounds[groups.start]), int(bounds[groups.stop])
        derived = [name for name in names if self._is_derived(file, name)]
        stored = [name for name in names if name not in derived]
        place = opened.describe(groups.start)
        with self._lent(names, min(step, last - first)):
            read = opened.parts(groups, stored, step) if stored else None
            while first < last:
                columns = {} if read is None else next(read)
                count = len(next(iter(columns.values()))) if columns else min(step, last - first)
                for name, column in columns.items():
                    feature = self._features[name]
                    if feature.kind == "number":
                        columns[name] = numbers_of(name, column, feature, place=place)
                for name in derived:
                    values = self._derived.derive(name, file, first, first + count)
                    columns[name] = Numbers(values)
                yield first, columns
                first += count

    def _is_derived(self, file: int, name: str) -> bool:
        return self._derived.can_derive(name) and name not in self._files.open(file).names

    def _step(self, file: int, group: int, name: str) -> int:
        """Return how many rows of a feature are read at a time."""
        key = (file, group, name, self._limit_bytes)
        step = self._steps.get(key)
        if step is None:
            bounds = self._files.group_bounds(file)
            rows = self._rows_at_once(file, range(group, group + 1), [name])
            is_whole = rows >= bounds[group + 1] - bounds[group]
            step = self._steps[key] = rows if is_whole else max(1, rows // 2)
        return step

    def _rows_at_once(self, file: int, groups: range, names: Sequence[str]) -> int:
        stored = [name for name in names if not self._is_derived(file, name)]
        if not stored:
            return self._limit_bytes // _COPIES
        return self._files.open(file).rows_at_once(groups, stored, self._limit_bytes)

    def _lent(self, names: Sequence[str], count: int) -> AbstractContextManager[None]:
        """Count the memory that reading some rows takes."""
        features = [self._features[name] for name in names]
        sizes = [
            math.prod(f.value_shape) * f.numpy_dtype.itemsize
            for f in features
            if f.kind == "number"
        ]
        whole = sum(sizes) * count if len(sizes) == len(names) else self._limit_bytes
        return self._budget.in_hand(_COPIES * min(whole, self._limit_bytes), owner=_OWNER)

    @property
    def _limit_bytes(self) -> int:
        return max(self._budget.limit_bytes // _SHARE, _LEAST_BYTES)


def _chosen(
    parts: NDArray[np.int64],
    part: int,
    rows: NDArray[np.int64],
    step: int,
    values: Any,  # noqa: ANN401
) -> tuple[NDArray[np.intp], Any]:
    chosen = np.flatnonzero(parts == part)
    places = rows[chosen] - part * step
    if isinstance(values, Numbers):
        return chosen, values.at(places)
    objects = np.empty(len(places), dtype=object)
    objects[:] = [values[place].as_py() for place in places.tolist()]
    return chosen, objects


class DerivedCounters:
    """The counters of rows whose files leave them out, as GR00T's datasets do."""

    def __init__(self, manifest: Manifest, files: FrameFiles) -> None:
        self._manifest = manifest
        self._files = files

    def can_derive(self, name: str) -> bool:
        """Return whether a feature is a counter."""
        return name in COUNTERS

    def derive(self, name: str, file: int, start: int, stop: int) -> NDArray[Any]:
        """Return a counter at the rows ``[start, stop)`` of a file; 0 for rows of no episode.

        A task is the number of the episode's first task; -1 if the table of tasks does not have it.
        """
        there = self._files.rows_of_span(file, start, stop)
        values = np.zeros(stop - start, self._manifest.features[name].numpy_dtype)
        values[there.places] = self._values(name, there.rows)
        return values

    def _values(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        if name == "index":
            return rows
        episodes = self._manifest.episodes
        positions = self._files.episodes_of(rows)
        if name == EPISODE_NUMBER:
            return episodes.number[positions]
        if name == TASK_NUMBER:
            return self._tasks[positions]
        frames = rows - episodes.start[positions]
        return frames if name == "frame_index" else frames / self._manifest.fps

    @cached_property
    def _tasks(self) -> NDArray[np.int64]:
        """The number of each episode's first task, ``(E,)``."""
        episodes = self._manifest.episodes
        numbers: dict[str, int] = {}
        for number, text in self._manifest.tasks.items():
            numbers.setdefault(text, number)
        known = np.array([numbers.get(text, -1) for text in episodes.task_texts], np.int64)
        first, has_one = episodes.task_bounds[:-1], np.diff(episodes.task_bounds) > 0
        codes = np.full(len(episodes), -1, np.int64)
        codes[has_one] = known[episodes.task_codes[first[has_one]]]
        return codes
