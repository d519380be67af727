"""Numbers and texts of any rows, gathered once per feature and batch."""

from __future__ import annotations

import math
import threading
import warnings
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import DatasetError, MissingValueError
from roboreel.frames.dense import Dense
from roboreel.frames.pieces import Pieces
from roboreel.parquet.parquet_errors import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.frames.derived import DerivedCounters
    from roboreel.frames.frame_files import FrameFiles
    from roboreel.io.budget import Budget
    from roboreel.schema import Feature

__all__ = ["Columns"]

_DENSE = "dense columns"
# Features of a row group are read together up to this size: a call costs more than its data.
_TOGETHER_BYTES = 2**22
# A pass over small row groups reads about this much at once.
_AHEAD_BYTES = 2**14


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Features of adjacent row groups."""

    names: tuple[str, ...]
    file: int
    first: int
    stop: int
    values: dict[str, NDArray[Any]]


class Columns:
    """The features of a dataset that are numbers or texts.

    As long as all of them fit in half of the budget, features are held as one array each, which
    fills up as rows are asked for: a gather is then one NumPy call. The others are held by row
    group, so their speed depends on the order of access.
    """

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
        self._pieces = Pieces(files, features, budget, derived)
        self._run: _Run | None = None
        self._warned = False
        weakref.finalize(self, budget.drop_prefix, files.token).atexit = False

    def gather(
        self,
        name: str,
        rows: NDArray[np.int64],
        *,
        episodes: NDArray[np.int64] | None = None,
        together: Callable[[], Sequence[str]] | None = None,
    ) -> NDArray[Any]:
        """Return a feature at some rows, with the shape of ``rows`` followed by that of a value.

        Args:
            name: A feature of numbers, texts or language; the latter two are objects.
            rows: Rows of the dataset, of any shape, in any order, repeats allowed.
            episodes: Positions of the episodes that the rows lie in, if they are known.
            together: Returns the features that are needed next. If row groups have to be read,
                theirs are read along: faster than one by one.

        Raises:
            MissingValueError: One of them is null.
        """
        feature = self._features[name]
        flat = rows.reshape(-1)
        if feature.kind != "number":
            return self._gather_objects(name, flat).reshape(rows.shape)
        dense = self._dense(name, feature)
        if dense is None:
            return self._gather_groups(name, feature, flat).reshape(
                *rows.shape, *feature.value_shape
            )
        if dense.num_missing:
            touched = self._files.episodes_of(flat) if episodes is None else episodes
            if np.count_nonzero(dense.missing[touched]):
                more = {} if together is None else self._lacking(together())
                # Ours comes last: what is held by now may be the array of another thread.
                self._fill({**more, name: dense}, flat)
        if dense.nulls is not None:
            self._check_nulls(name, dense.nulls, flat)
        return dense.values.take(rows, axis=0)

    def gather_tasks(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of tasks or subtasks at some rows, ``(N,)``; a null is -1."""
        try:
            return np.asarray(self.gather(name, rows), np.int64)
        except MissingValueError:
            pass
        out = np.empty(len(rows), np.int64)
        for file, group, places in self._groups(rows):
            for chosen, values in self._pieces.held(name, file, group, places.rows, nulls=True):
                out[places.slots[chosen]] = values
        return out

    def is_stored(self, name: str, row: int) -> bool:
        """Return whether the data file of a row has a column of a feature."""
        file, _ = self._files.locate_one(row)
        return self._files.open(file).has_column(name)

    def read_span(self, names: Sequence[str], start: int, stop: int) -> dict[str, NDArray[Any]]:
        """Return several features at rows ``[start, stop)`` of one episode, for a single pass.

        Numbers are not held, except for the row groups read last: the next episode may lie in them
        too. Consecutive small row groups are read several at a time. Texts, and numbers in large
        row groups, are held as by `gather`.
        """
        numbers = tuple(name for name in names if self._features[name].kind == "number")
        read = self._read_span(numbers, start, stop) if start < stop else {}
        # Numbers of large row groups, and of those that have nulls, perhaps in other rows.
        return {
            name: read[name] if name in read else self.gather(name, np.arange(start, stop))
            for name in names
        }

    def rung(self, name: str) -> str:
        """Return how a feature is held: as one array, or by row group."""
        feature = self._features[name]
        if feature.kind != "number":
            return "row groups, as Arrow text"
        if self._budget.get((self._files.token, name)) is not None:
            return "one dense array"
        if self._fits(feature):
            return "one dense array, once read"
        return f"row groups, read again and again at random: {self._advice()}"

    def _advice(self) -> str:
        """Return what would make random access fast."""
        numbers = [f for f in self._features.values() if f.kind == "number"]
        needed = sum(self._column_bytes(feature) for feature in numbers)
        return (
            f"raise `memory=` to {2 * needed / 1e6:,.0f} MB, or open with numbers='mapped', which "
            f"takes {needed / 1e6:,.0f} MB of disk"
        )

    def _warn_once(self) -> None:
        """Warn when most row groups that are needed were read before and have left the budget."""
        if self._warned or not self._pieces.rereads_much:
            return
        self._warned = True
        limit = self._budget.limit_bytes / 1e6
        warnings.warn(
            f"Numbers do not fit in half of the memory budget of {limit:,.0f} MB, so that row groups "
            f"are read again and again. Read in order, {self._advice()}: {str(self._files.root)!r}.",
            UserWarning,
            stacklevel=2,
        )

    def _read_span(self, names: tuple[str, ...], start: int, stop: int) -> dict[str, NDArray[Any]]:
        """Return the numbers of an episode's rows; none if a row group is large or has nulls."""
        part, *others = self._files.parts(start, stop)
        if others:
            return {}
        file, first = part.file, part.first
        last = first + part.num_rows - 1
        bounds = self._files.group_bounds(file)
        touched = np.searchsorted(bounds, [first, last], side="right") - 1
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
        group = int(touched[0])
        while group <= touched[1]:
            if self._group_bytes(names, int(bounds[group + 1] - bounds[group])) > _TOGETHER_BYTES:
                return {}
            try:
                run = self._read_run(names, file, group)
            except MissingValueError:
                return {}
            begin, end = int(bounds[run.first]), int(bounds[run.stop])
            inside = slice(max(first - begin, 0), min(last + 1, end) - begin)
            for name, values in run.values.items():
                parts[name].append(values[inside])
            group = run.stop
        return {name: _joined(some) for name, some in parts.items()}

    def _read_run(self, names: tuple[str, ...], file: int, group: int) -> _Run:
        """Return a row group; if the one before it was read last, also some that follow."""
        last, stop = self._run, group + 1
        if last is not None and (last.names, last.file) == (names, file):
            if last.first <= group < last.stop:
                return last
            if last.stop == group:
                bounds = self._files.group_bounds(file)
                end = bounds[group] + _AHEAD_BYTES // max(1, self._group_bytes(names, 1))
                stop = max(stop, int(np.searchsorted(bounds, end, side="right")) - 1)
        try:
            run = self._read_groups(names, file, group, stop)
        except DatasetError:
            if stop == group + 1:
                raise
            # Perhaps it is in what follows: report it when that is asked for.
            run = self._read_groups(names, file, group, group + 1)
        self._run = run
        return run

    def _read_groups(self, names: tuple[str, ...], file: int, group: int, stop: int) -> _Run:
        values = self._pieces.read(file, range(group, stop), names)
        return _Run(names, file, group, stop, values)

    def _fits(self, feature: Feature) -> bool:
        held = self._budget.held_by(_DENSE)
        return held + self._column_bytes(feature) <= self._budget.limit_bytes // 2

    def _column_bytes(self, feature: Feature) -> int:
        return self._files.num_rows * self._row_bytes(feature)

    def _row_bytes(self, feature: Feature) -> int:
        return math.prod(feature.value_shape) * feature.numpy_dtype.itemsize

    def _dense(self, name: str, feature: Feature) -> Dense | None:
        key = (self._files.token, name)
        held: Dense | None = self._budget.get(key)
        if held is None and self._fits(feature):
            shape = (self._files.num_rows, *feature.value_shape)
            # Not zeroed: pages that no row group fills are never touched and cost nothing.
            values = np.empty(shape, feature.numpy_dtype)
            missing = self._files.lengths.copy()
            held = Dense(values, set(), missing, threading.Lock(), int(missing.sum()))
            self._budget.put(key, held, self._column_bytes(feature), owner=_DENSE)
        return held

    def _lacking(self, names: Sequence[str]) -> dict[str, Dense]:
        """Return the dense arrays of some features that are not complete yet."""
        lacking = {}
        for name in names:
            feature = self._features.get(name)
            if feature is None or feature.kind != "number":
                continue
            dense = self._dense(name, feature)
            if dense is not None and dense.num_missing:
                lacking[name] = dense
        return lacking

    def _fill(self, columns: Mapping[str, Dense], rows: NDArray[np.int64]) -> None:
        for file, group, _ in self._groups(rows):
            names = [name for name, dense in columns.items() if (file, group) not in dense.filled]
            if not names:
                continue
            bounds = self._files.group_bounds(file)
            first, stop = int(bounds[group]), int(bounds[group + 1])
            for together in self._portions(names, stop - first):
                written: dict[str, list[tuple[Any, Any]]] = {name: [] for name in together}
                for start, values in self._pieces.numbers(file, group, together):
                    length, begin = len(next(iter(values.values()))), first + start
                    there = self._files.rows_of_span(file, begin, begin + length)
                    is_whole = len(there.rows) == length
                    for name, part in values.items():
                        columns[name].put(there.rows, part if is_whole else part[there.places])
                        written[name].append((there.episodes, there.counts))
                for name, parts in written.items():
                    columns[name].finish((file, group), parts)

    def _check_nulls(self, name: str, nulls: NDArray[np.bool_], rows: NDArray[np.int64]) -> None:
        wrong = rows[nulls[rows]]
        if len(wrong):
            file, _ = self._files.locate_one(int(wrong[0]))
            raise MissingValueError(
                f"{name!r} is null in row {int(wrong[0]):,}, but every frame needs a value, in "
                f"{str(self._files.open(file).path)!r}."
            )

    def _portions(self, names: list[str], count: int) -> list[list[str]]:
        """Return which features to read together from a row group of ``count`` rows."""
        small = self._group_bytes(names, count) <= _TOGETHER_BYTES
        return [names] if small else [[name] for name in names]

    def _group_bytes(self, names: Iterable[str], count: int) -> int:
        """Return the size of ``count`` rows of several features."""
        return sum(self._row_bytes(self._features[name]) for name in names) * count

    def _gather_groups(self, name: str, feature: Feature, rows: NDArray[np.int64]) -> NDArray[Any]:
        self._warn_once()
        out: NDArray[Any] | None = None
        for file, group, places in self._groups(rows):
            for chosen, values in self._pieces.held(name, file, group, places.rows):
                if out is None:  # Not before a value is seen: a declared shape may be anything.
                    out = np.empty((len(rows), *feature.value_shape), feature.numpy_dtype)
                out[places.slots[chosen]] = values
        return np.empty((0, *feature.value_shape), feature.numpy_dtype) if out is None else out

    def _gather_objects(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        out = np.empty(len(rows), dtype=object)
        for file, group, places in self._groups(rows):
            with parquet_errors(self._files.path(file)):  # The bytes may be no text.
                for chosen, values in self._pieces.held(name, file, group, places.rows):
                    out[places.slots[chosen]] = values
        return out

    def unread(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of some rows whose values have to be read from files."""
        feature = self._features[name]
        dense = self._dense(name, feature) if feature.kind == "number" else None
        return rows if dense is None else rows[dense.missing[self._files.episodes_of(rows)] > 0]

    def groups_of(self, rows: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return the files and row groups that hold some rows."""
        return [(file, group) for file, group, _ in self._groups(rows)]

    def _groups(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, int, _Places]]:
        """Yield the file and row group of some rows, and which of the rows lie in it."""
        files, file_rows = self._files.locate(rows)
        for slots in _runs_of_equal(files):
            file = int(files[slots[0]])
            bounds = self._files.group_bounds(file)
            groups = np.searchsorted(bounds, file_rows[slots], side="right") - 1
            for chosen in _runs_of_equal(groups):
                group, wanted = int(groups[chosen[0]]), slots[chosen]
                yield file, group, _Places(wanted, file_rows[wanted] - bounds[group])


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _runs_of_equal(values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the places of each distinct value, in ascending order of the values."""
    if not len(values):
        return []
    order = np.argsort(values, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    slots: NDArray[np.int64]
    """Where in the result."""
    rows: NDArray[np.int64]
    """Where in the row group."""
