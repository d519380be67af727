"""Numbers and texts of any rows, gathered once per feature and batch."""

from __future__ import annotations

import math
import threading
import warnings
import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from roboreel.distinct import distinct
from roboreel.errors import CorruptFileError, DatasetError, MissingValueError
from roboreel.frames.pieces import Pieces
from roboreel.parquet.dense import Numbers
from roboreel.parquet.reader import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.frames.frame_files import FrameFiles
    from roboreel.frames.pieces import DerivedCounters
    from roboreel.io.budget import Budget
    from roboreel.schema import Feature


_DENSE = "dense columns"
# Adjacent row groups are read together up to this size: a call costs more than its data. For a
# single pass, larger ones are held like those of any other read.
_TOGETHER_BYTES = 2**23
# So much is decoded in the time that a call takes.
_LITTLE_BYTES = 2**17
# A single pass over small row groups reads about this much at once.
_AHEAD_BYTES = 2**20

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class _Dense:
    """One feature over all rows, filled as rows are asked for."""

    values: NDArray[Any]
    written: NDArray[np.bool_]
    """Which rows have been read. No other is ever returned."""
    is_full: bool = False
    nulls: NDArray[np.bool_] | None = None
    """Which rows are null, as far as they have been read; None if none is."""
    groups: set[tuple[int, int]] = field(default_factory=set)
    """Files and row groups that have been read."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, rows: NDArray[np.int64], part: Numbers) -> None:
        """Take in the values of some rows."""
        if part.nulls is not None:
            with self.lock:
                if self.nulls is None:  # pages without any are never touched
                    self.nulls = np.zeros(len(self.values), bool)
            self.nulls[rows] = part.nulls
        self.values[rows] = part.values
        self.written[rows] = True


class _Run(NamedTuple):
    """Numbers of adjacent rows of a file."""

    names: tuple[str, ...]
    file: int
    groups: range
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
        together: Callable[[], Sequence[str]] | None = None,
    ) -> NDArray[Any]:
        """Return a feature at some rows, with the shape of ``rows`` followed by that of a value.

        Args:
            name: A feature of numbers, texts or language; the latter two are objects.
            rows: Rows of the dataset, of any shape, in any order, repeats allowed.
            together: Returns the features that are needed next. If row groups have to be read,
                theirs are read along: faster than one by one.

        Raises:
            MissingValueError: One of them is null.
        """
        feature = self._features[name]
        flat = rows.reshape(-1)
        if feature.kind != "number":
            return self._gather_objects(name, flat).reshape(rows.shape)
        values, nulls = self._gather_numbers(name, flat, together)
        if nulls is not None and nulls.any():
            row = int(flat[nulls.argmax()])
            file, _ = self._files.locate_one(row)
            raise MissingValueError(
                f"{name!r} is null in row {row:,}, but every frame needs a value, in "
                f"{str(self._files.path(file))!r}."
            )
        return values.reshape(*rows.shape, *feature.value_shape)

    def gather_tasks(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of tasks or subtasks at some rows, ``(N,)``; a null is -1."""
        values, nulls = self._gather_numbers(name, rows)
        return np.asarray(values if nulls is None else np.where(nulls, -1, values), np.int64)

    def _gather_numbers(
        self,
        name: str,
        rows: NDArray[np.int64],
        together: Callable[[], Sequence[str]] | None = None,
    ) -> Numbers:
        dense = self._dense(name)
        if dense is None:
            return self._gather_groups(name, rows)
        if not dense.is_full and not dense.written[rows].all():
            more = {} if together is None else self._lacking(together())
            # Ours comes last: what is held by now may be the array of another thread.
            self._fill({**more, name: dense}, rows)
        nulls = None if dense.nulls is None else dense.nulls[rows]
        return Numbers(dense.values.take(rows, axis=0), nulls)

    def is_stored(self, name: str, row: int) -> bool:
        """Return whether the data file of a row has a column of a feature."""
        file, _ = self._files.locate_one(row)
        return name in self._files.open(file).names

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
        bounds, parts = self._files.group_bounds(part.file), []
        first, last = part.first, part.first + part.num_rows
        while first < last:
            group = int(np.searchsorted(bounds, first, side="right")) - 1
            if self._bytes(names, int(bounds[group + 1] - bounds[group])) > _TOGETHER_BYTES:
                return {}
            try:
                run = self._read_run(names, part.file, group)
            except MissingValueError:
                return {}
            begin, end = int(bounds[run.groups.start]), int(bounds[run.groups.stop])
            inside = slice(first - begin, last - begin)
            parts.append({name: values[inside] for name, values in run.values.items()})
            first = end
        return {name: _joined([values[name] for values in parts]) for name in names}

    def _read_run(self, names: tuple[str, ...], file: int, group: int) -> _Run:
        """Return a row group; if the one before it was read last, also some that follow."""
        last, stop = self._run, group + 1
        bounds = self._files.group_bounds(file)
        if last is not None and (last.names, last.file) == (names, file):
            if group in last.groups:
                return last
            if last.groups.stop == group:
                end = bounds[group] + _AHEAD_BYTES // max(1, self._bytes(names, 1))
                stop = max(stop, int(np.searchsorted(bounds, end, side="right")) - 1)
        self._run = _or_the_first(partial(self._read_groups, names, file), range(group, stop))
        return self._run

    def _read_groups(self, names: tuple[str, ...], file: int, groups: range) -> _Run:
        parts = [values for _, values in self._pieces.numbers(file, groups, names)]
        if any(part[name].nulls is not None for part in parts for name in names):
            raise MissingValueError("Some values are null.")
        values = {name: _joined([part[name].values for part in parts]) for name in names}
        return _Run(names, file, groups, values)

    def _fits(self, feature: Feature) -> bool:
        held = self._budget.held_by(_DENSE)
        return held + self._column_bytes(feature) <= self._budget.limit_bytes // 2

    def _column_bytes(self, feature: Feature) -> int:
        return self._files.num_rows * self._row_bytes(feature)

    def _row_bytes(self, feature: Feature) -> int:
        return math.prod(feature.value_shape) * feature.numpy_dtype.itemsize

    def _dense(self, name: str) -> _Dense | None:
        """Return the array of a feature, perhaps empty as yet; None if it does not fit."""
        key, feature = (self._files.token, name), self._features[name]
        held: _Dense | None = self._budget.get(key)
        if held is None and self._fits(feature):
            shape = (self._files.num_rows, *feature.value_shape)
            # Not zeroed: pages that no row group fills are never touched and cost nothing.
            values = np.empty(shape, feature.numpy_dtype)
            held = _Dense(values, np.zeros(len(values), bool))
            self._budget.put(key, held, self._column_bytes(feature), owner=_DENSE)
        return held

    def _lacking(self, names: Sequence[str]) -> dict[str, _Dense]:
        """Return the dense arrays of some features that are not complete yet."""
        numbers = [name for name in names if self._is_number(name)]
        found = {name: self._dense(name) for name in numbers}
        return {name: dense for name, dense in found.items() if dense and not dense.is_full}

    def _is_number(self, name: str) -> bool:
        feature = self._features.get(name)
        return feature is not None and feature.kind == "number"

    def _fill(self, columns: Mapping[str, _Dense], rows: NDArray[np.int64]) -> None:
        """Read the row groups of some rows, and more and more of those that follow them."""
        needed = {n: set(self.groups_of(rows[~d.written[rows]])) for n, d in columns.items()}
        groups = sorted(set().union(*needed.values()))
        # As much again as was read until now: so the first batch waits for little more than its own
        # rows, and a few calls read the rest.
        ahead = min(len(dense.groups) for dense in columns.values()) // max(1, len(groups))
        for file, group in groups:
            names = [name for name in columns if (file, group) in needed[name]]
            if not names:
                continue  # Read with those before it.
            bounds, stop = self._files.group_bounds(file), group + 1
            row_bytes = self._bytes(names, 1)
            while stop + 1 < len(bounds) and not any(
                (file, stop) in columns[n].groups for n in names
            ):
                wanted = stop <= group + ahead or any((file, stop) in needed[n] for n in names)
                size = int(bounds[stop + 1] - bounds[group]) * row_bytes
                if size > (_TOGETHER_BYTES if wanted else _LITTLE_BYTES):
                    break
                stop += 1
            lacking = {name: columns[name] for name in names}
            read = _or_the_first(partial(self._put, lacking, file), range(group, stop))
            for name in names:
                needed[name] -= read
            # As pages, as Arrow values and as arrays; and Arrow takes more than it hands out.
            self._files.note_freed(4 * row_bytes * int(bounds[stop] - bounds[group]))
        for name, dense in columns.items():
            dense.is_full = bool(dense.written.all())
            if not dense.written[rows].all():
                raise CorruptFileError(
                    f"Some rows of {name!r} are in no data file. Run `roboreel check`: "
                    f"{str(self._files.root)!r}."
                )

    def _put(self, columns: Mapping[str, _Dense], file: int, groups: range) -> set[tuple[int, int]]:
        for first, values in self._pieces.numbers(file, groups, list(columns)):
            stop = first + len(next(iter(values.values())).values)
            there = self._files.rows_of_span(file, first, stop)
            is_whole = len(there.rows) == stop - first
            for name, part in values.items():
                columns[name].put(there.rows, part if is_whole else part.at(there.places))
        read = {(file, group) for group in groups}
        for dense in columns.values():
            dense.groups |= read
        return read

    def _bytes(self, names: Iterable[str], count: int) -> int:
        """Return the size of ``count`` rows of several features."""
        return sum(self._row_bytes(self._features[name]) for name in names) * count

    def _gather_groups(self, name: str, rows: NDArray[np.int64]) -> Numbers:
        self._warn_once()
        feature = self._features[name]
        shape, nulls = feature.value_shape, np.zeros(len(rows), bool)
        values: NDArray[Any] | None = None
        for file, group, places in self._groups(rows):
            for chosen, part in self._pieces.held(name, file, group, places.rows):
                if values is None:  # Not before a value is seen: a declared shape may be anything.
                    values = np.empty((len(rows), *shape), feature.numpy_dtype)
                slots = places.slots[chosen]
                values[slots] = part.values
                if part.nulls is not None:
                    nulls[slots] = part.nulls
        if values is None:
            values = np.empty((0, *shape), feature.numpy_dtype)
        return Numbers(values, nulls)

    def _gather_objects(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        out = np.empty(len(rows), dtype=object)
        for file, group, places in self._groups(rows):
            with parquet_errors(self._files.path(file)):  # The bytes may be no text.
                for chosen, values in self._pieces.held(name, file, group, places.rows):
                    out[places.slots[chosen]] = values
        return out

    def unread(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of some rows whose values have to be read from files."""
        dense = self._dense(name) if self._is_number(name) else None
        return rows if dense is None else rows[~dense.written[rows]]

    def groups_of(self, rows: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return the files and row groups that hold some rows."""
        files, file_rows = self._files.locate(rows)
        groups = []
        for file in distinct(files).tolist():
            bounds = self._files.group_bounds(file)
            inside = np.searchsorted(bounds, file_rows[files == file], side="right") - 1
            groups += [(file, group) for group in distinct(inside).tolist()]
        return groups

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


def _or_the_first(read: Callable[[range], _T], groups: range) -> _T:
    """Return what reading some row groups gives; if that fails, what the first of them gives.

    A fault may be in what follows: it is reported when that is asked for.
    """
    try:
        return read(groups)
    except DatasetError:
        if len(groups) == 1:
            raise
        return read(groups[:1])


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
