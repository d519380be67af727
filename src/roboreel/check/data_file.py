"""A data file under check: its counters, where its episodes lie, and its values block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import DatasetError
from roboreel.format.counters import COUNTERS, EPISODE_NUMBER
from roboreel.parquet.scan import ScannedColumn, ScannedFile, join_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.check.context import Context

_BLOCK_BYTES = 2**25
"""How much of a file is read at a time: little beside the budget, much beside a call."""


@dataclass(frozen=True, eq=False)
class Spans:
    """Episodes that lie in a file or a block, in the order of their rows, each ``(S,)``."""

    position: NDArray[np.int64]
    """Where each stands in the episode table."""
    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.position)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The rows of all spans, one after the other, ``(R,)``."""
        lengths = self.stop - self.start
        before = np.cumsum(lengths) - lengths
        return np.repeat(self.start - before, lengths) + np.arange(int(lengths.sum()))

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """Span ``s`` has ``rows[bounds[s]:bounds[s + 1]]``, ``(S + 1,)``."""
        return np.concatenate([[0], np.cumsum(self.stop - self.start)]).astype(np.int64)

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """Which span each of `rows` is of, ``(R,)``."""
        return np.repeat(np.arange(len(self)), self.stop - self.start)

    def inside(self, start: int, stop: int) -> Spans:
        """Return the spans that lie wholly within some rows, counted from the first of these."""
        whole = (self.start >= start) & (self.stop <= stop)
        return Spans(self.position[whole], self.start[whole] - start, self.stop[whole] - start)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The values of adjacent rows of a data file."""

    file: DataFile
    start: int
    """Row of the file that is the first row of the block."""
    columns: Mapping[str, ScannedColumn]
    """By feature of numbers; what has no column or cannot be read is left out."""
    spans: Spans
    """The wanted episodes in it, whole, in rows of the block."""

    def describe(self, row: int) -> str:
        """Return the words for a row of the block."""
        return f"row {self.start + row} of the file"


class DataFile:
    """An open data file, and the episodes that the metadata puts there.

    Args:
        context: The dataset under check.
        number: The file's position in the manifest's data files.
        reads_values: Whether `blocks` will be asked for. Of a small file, everything is then read
            at once.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a readable Parquet file.
    """

    def __init__(self, context: Context, number: int, *, reads_values: bool = True) -> None:
        self.context = context
        self.path = context.manifest.data_files[number]
        episodes = context.manifest.episodes
        positions = context.positions_by_data_file[number]
        order = np.argsort(episodes.data_row[positions], kind="stable")
        self.positions: NDArray[np.int64] = positions[order]
        """The episodes that the metadata puts here, in the order in which it does."""
        self.scanned = ScannedFile(context.root / self.path)
        self.num_rows = self.scanned.num_rows
        self.losses: dict[tuple[int, str], str] = {}
        """What cannot be read, by row group and feature, and why."""
        self._values: dict[str, ScannedColumn] | None = None
        self.counters = self._read_counters(reads_values=reads_values)
        """The counters that the file has, over all of its rows."""

    def close(self) -> None:
        """Let go of the file."""
        self.scanned.close()

    @cached_property
    def numbers(self) -> NDArray[np.int64] | None:
        """The number of the episode that each row names, -1 if none; None without such a column."""
        column = self.counters.get(EPISODE_NUMBER)
        if column is None or column.values is None or column.values.ndim != 1:
            return None
        values = column.values.astype(np.int64)
        return values if column.nulls is None else np.where(column.nulls, -1, values)

    @cached_property
    def expected_rows(self) -> int:
        """How many rows the metadata says the file has, which may be any number."""
        return int(self.context.manifest.episodes.length[self.positions].sum())

    @cached_property
    def expected_numbers(self) -> NDArray[np.int64]:
        """The number of the episode of each row, as the metadata counts them; if `expected_rows` are there."""
        episodes = self.context.manifest.episodes
        return np.repeat(episodes.number[self.positions], episodes.length[self.positions])

    @cached_property
    def elsewhere(self) -> dict[int, dict[str, int]]:
        """By position, the episodes that go on in files behind this: how many rows, by file."""
        if self.numbers is None or self.num_rows == self.expected_rows:
            return {}
        found = {one: self.context.rows_elsewhere(one) for one in self.positions.tolist()}
        return {position: files for position, files in found.items() if files}

    @cached_property
    def runs(self) -> dict[int, list[tuple[int, int]]]:
        """The runs of rows ``[start, stop)`` of each episode, by the number that the rows name."""
        runs: dict[int, list[tuple[int, int]]] = {}
        if self.numbers is None or not len(self.numbers):
            return runs
        starts = np.flatnonzero(np.diff(self.numbers, prepend=self.numbers[0] - 1))
        stops = [*starts[1:].tolist(), len(self.numbers)]
        for start, stop in zip(starts.tolist(), stops, strict=True):
            runs.setdefault(int(self.numbers[start]), []).append((start, stop))
        return runs

    @cached_property
    def spans(self) -> Spans:
        """Where the wanted episodes lie that can be found and read, in rows of the file."""
        episodes = self.context.manifest.episodes
        found = []
        for position in self.positions[self.context.wanted[self.positions]].tolist():
            span = self._find(int(episodes.number[position]), position)
            if span is not None and span[0] < span[1]:
                found.append((position, *span))
        found.sort(key=lambda span: span[1])
        columns = np.array(found, np.int64).reshape(-1, 3)
        lost = self._lost_rows
        whole = [not lost[start:stop].any() for _, start, stop in found] if lost.any() else None
        if whole is not None:
            columns = columns[whole]
        return Spans(columns[:, 0], columns[:, 1], columns[:, 2])

    def dataset_rows(self, position: int, start: int, stop: int) -> tuple[int, int]:
        """Return rows of an episode, counted from its first frame, as rows of the dataset."""
        first = int(self.context.manifest.episodes.start[position])
        return first + start, first + stop

    def blocks(self) -> Iterator[Block]:
        """Yield the values of all rows that can be read, by blocks of whole episodes."""
        held: dict[str, ScannedColumn] = {}
        held_start = held_stop = 0
        for start, stop, columns in self._pieces():
            if held_start < held_stop:
                if held_stop == start and held.keys() == columns.keys():
                    columns = {name: join_columns(held[name], columns[name]) for name in columns}
                    start = held_start
                else:
                    yield self._block(held_start, held_stop, held)
            # The last episode goes on in the next piece: it waits for the rest.
            cut = self.spans.start[(self.spans.start < stop) & (self.spans.stop > stop)]
            end = max(start, int(cut[0])) if len(cut) else stop
            held = {
                name: column.rows(end - start, stop - start) for name, column in columns.items()
            }
            held_start, held_stop = end, stop
            if start < end:
                ready = {name: column.rows(0, end - start) for name, column in columns.items()}
                yield self._block(start, end, ready)
        if held_start < held_stop:
            yield self._block(held_start, held_stop, held)

    def _block(self, start: int, stop: int, columns: Mapping[str, ScannedColumn]) -> Block:
        counters = {name: column.rows(start, stop) for name, column in self.counters.items()}
        return Block(self, start, {**columns, **counters}, self.spans.inside(start, stop))

    def _find(self, number: int, position: int) -> tuple[int, int] | None:
        """Return the rows of an episode: those that name it, or those that the metadata names."""
        episodes = self.context.manifest.episodes
        start, length = int(episodes.data_row[position]), int(episodes.length[position])
        agrees = self.num_rows == self.expected_rows
        runs = self.runs.get(number, [])
        if len(runs) == 1 and (not agrees or runs[0][1] - runs[0][0] == length):
            return runs[0]
        if agrees or (self.numbers is None and start + length <= self.num_rows):
            return start, start + length
        return None

    @cached_property
    def _value_names(self) -> list[str]:
        features = self.context.manifest.features
        return [
            name
            for name in self.scanned.column_names
            if name in features and features[name].kind == "number" and name not in COUNTERS
        ]

    @property
    def _lost_rows(self) -> NDArray[np.bool_]:
        """Whether a counter of each row cannot be read."""
        lost = np.zeros(self.num_rows, bool)
        bounds = self.scanned.group_bounds
        for group, name in self.losses:
            if name in COUNTERS:
                lost[bounds[group] : bounds[group + 1]] = True
        return lost

    def _read_counters(self, *, reads_values: bool) -> dict[str, ScannedColumn]:
        names = [name for name in COUNTERS if name in self.scanned.column_names]
        groups = range(len(self.scanned.group_bounds) - 1)
        values = self._value_names if reads_values and self.num_rows <= self._rows_per_block else []
        if not groups:
            return {}
        try:
            columns = self.scanned.read(groups, [*names, *values])
        except DatasetError:
            return self._read_counters_one_by_one(groups, names)
        if values:
            self._values = {name: columns[name] for name in values}
        return {name: columns[name] for name in names}

    def _read_counters_one_by_one(
        self, groups: Sequence[int], names: Sequence[str]
    ) -> dict[str, ScannedColumn]:
        counters: dict[str, ScannedColumn] = {}
        for group in groups:
            part = self._read_one_by_one(group, names)
            count = int(np.diff(self.scanned.group_bounds)[group])
            for name in names:
                column = part.get(name) or _absent(count, COUNTERS[name].numpy_dtype)
                joined = join_columns(counters[name], column) if name in counters else column
                counters[name] = joined
        return counters

    @property
    def _rows_per_block(self) -> int:
        features = self.context.manifest.features
        sizes = [
            math.prod(features[name].shape) * features[name].numpy_dtype.itemsize
            for name in self._value_names
        ]
        return max(1, _BLOCK_BYTES // max(8, sum(sizes)))

    def _pieces(self) -> Iterator[tuple[int, int, dict[str, ScannedColumn]]]:
        """Yield first row, stop and columns of adjacent row groups."""
        if self._values is not None:
            yield 0, self.num_rows, self._values
            return
        bounds, names, limit = self.scanned.group_bounds, self._value_names, self._rows_per_block
        group, last = 0, len(bounds) - 1
        while group < last:
            stop = int(np.searchsorted(bounds, bounds[group] + limit, side="right")) - 1
            if stop <= group and bounds[group + 1] - bounds[group] > 2 * limit:
                yield from self._large_piece(group, names, limit)
                stop = group + 1
            else:
                stop = max(stop, group + 1)
                yield from self._read_groups(range(group, stop), names)
            group = stop

    def _read_groups(
        self, groups: Sequence[int], names: Sequence[str]
    ) -> Iterator[tuple[int, int, dict[str, ScannedColumn]]]:
        bounds = self.scanned.group_bounds
        try:
            columns = self.scanned.read(groups, names)
        except DatasetError:
            for group in groups:
                part = self._read_one_by_one(group, names)
                yield int(bounds[group]), int(bounds[group + 1]), part
        else:
            yield int(bounds[groups[0]]), int(bounds[groups[-1] + 1]), columns

    def _large_piece(
        self, group: int, names: Sequence[str], limit: int
    ) -> Iterator[tuple[int, int, dict[str, ScannedColumn]]]:
        bounds = self.scanned.group_bounds
        start = int(bounds[group])
        names = [name for name in names if self._fits_in_parts(group, name)]
        if not names:
            return
        try:
            for columns in self.scanned.read_large(group, names, limit):
                stop = start + next(iter(columns.values())).num_rows
                yield start, stop, columns
                start = stop
        except DatasetError as error:
            for name in names:
                self.losses[group, name] = str(error)

    def _fits_in_parts(self, group: int, name: str) -> bool:
        try:
            self.scanned.check_size(group, name)
        except DatasetError as error:
            self.losses[group, name] = str(error)
            return False
        return True

    def _read_one_by_one(self, group: int, names: Sequence[str]) -> dict[str, ScannedColumn]:
        """Return the columns of a row group that can be read, and take note of the others."""
        columns: dict[str, ScannedColumn] = {}
        for name in names:
            try:
                columns |= self.scanned.read([group], [name])
            except DatasetError as error:  # noqa: PERF203  # a damaged file
                self.losses[group, name] = str(error)
        return columns


def _absent(count: int, dtype: np.dtype[np.generic]) -> ScannedColumn:
    return ScannedColumn(count, "", np.zeros(count, dtype), np.ones(count, bool))
