"""A data file under check: its counters, where its episodes lie, and its values block by block."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roboreel.errors import DatasetError
from roboreel.format.counters import COUNTERS, EPISODE_NUMBER
from roboreel.parquet.scan import ScannedColumn, ScannedFile, join_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.check.context import Context
    from roboreel.findings import Finding

_BLOCK_BYTES = 2**25
"""How much of a file is read at a time: little beside the budget, much beside a call."""


class Counter(NamedTuple):
    """A counter of a file's rows, each ``(N,)``."""

    values: NDArray[Any]
    nulls: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class StoredEpisode:
    """The rows of an episode in a file or a block."""

    file: DataFile
    position: int
    start: int
    stop: int
    inside: slice
    """Its part of `Spans.rows`."""

    @property
    def number(self) -> int:
        """The episode's number."""
        return self.file.context.number(self.position)

    def finding(self, code: str, message: str, first: int, stop: int, **more: Any) -> Finding:  # noqa: ANN401
        """Return a finding about the frames ``[first, stop)`` of the episode."""
        return self.file.context.episode_finding(
            code, message, self.position, (first, stop), file=self.file.path, **more
        )


@dataclass(frozen=True, eq=False)
class Spans:
    """Episodes that lie in a file or a block, in the order of their rows, each ``(S,)``."""

    file: DataFile
    position: NDArray[np.int64]
    """Where each stands in the episode table."""
    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, span: int) -> StoredEpisode:
        position, start, stop = self.position[span], self.start[span], self.stop[span]
        inside = slice(*self.bounds[span : span + 2].tolist())
        return StoredEpisode(self.file, int(position), int(start), int(stop), inside)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The rows of all spans, one after the other, ``(R,)``."""
        return self.start[self.owner] + self.frames

    @cached_property
    def frames(self) -> NDArray[np.int64]:
        """Where each of `rows` stands in its span, ``(R,)``."""
        return np.arange(int(self.bounds[-1])) - self.bounds[self.owner]

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """Span ``s`` has ``rows[bounds[s]:bounds[s + 1]]``, ``(S + 1,)``."""
        return np.concatenate([[0], np.cumsum(self.stop - self.start)]).astype(np.int64)

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """Which span each of `rows` is of, ``(R,)``."""
        return np.repeat(np.arange(len(self)), self.stop - self.start)

    def where(self, wrong: NDArray[np.bool_]) -> Iterator[tuple[StoredEpisode, NDArray[np.int64]]]:
        """Yield the episodes of which rows are marked, each with the frames that are.

        Args:
            wrong: Which of the `rows` are marked, ``(R,)``.
        """
        for span in np.unique(self.owner[wrong]).tolist():
            episode = self[span]
            yield episode, np.flatnonzero(wrong[episode.inside])

    def inside(self, start: int, stop: int) -> Spans:
        """Return the spans that lie wholly within some rows, counted from the first of these."""
        whole = (self.start >= start) & (self.stop <= stop)
        starts, stops = self.start[whole] - start, self.stop[whole] - start
        return Spans(self.file, self.position[whole], starts, stops)


@dataclass(frozen=True, eq=False)
class Block:
    """The values of adjacent rows of a data file."""

    file: DataFile
    start: int
    """The first row, counted in the file."""
    stop: int
    columns: Mapping[str, ScannedColumn]
    """By feature of numbers; what has no column or cannot be read is left out."""

    @cached_property
    def spans(self) -> Spans:
        """The wanted episodes that lie in it as a whole, in rows of the block."""
        return self.file.spans.inside(self.start, self.stop)

    def rows(self, start: int, stop: int) -> Block:
        """Return some rows of it, counted in the file."""
        first, last = start - self.start, stop - self.start
        columns = {name: column.rows(first, last) for name, column in self.columns.items()}
        return Block(self.file, start, stop, columns)

    def of(self, names: Sequence[str]) -> Block:
        """Return some columns of it, as far as they are there."""
        columns = {name: self.columns[name] for name in names if name in self.columns}
        return replace(self, columns=columns)

    def joined(self, other: Block) -> Block:
        """Return its rows and those of the block behind it, which has the same columns."""
        pairs = {name: (column, other.columns[name]) for name, column in self.columns.items()}
        columns = {name: join_columns(*pair) for name, pair in pairs.items()}
        return Block(self.file, self.start, other.stop, columns)


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
        self._values: list[Block] | None = None
        self.counters = self._read_counters(reads_values=reads_values)
        """The counters that the file has, over all of its rows."""

    def close(self) -> None:
        """Let go of the file, and of its values."""
        self.scanned.close()
        # Blocks and spans refer to the file: all would stay until the collector comes by.
        self._values = None
        vars(self).pop("spans", None)

    def counter(self, name: str) -> Counter | None:
        """Return a counter; None if it does not hold one number for each row."""
        column = self.counters.get(name)
        if column is None or column.values is None or column.values.ndim != 1:
            return None
        nulls = np.zeros(self.num_rows, bool) if column.nulls is None else column.nulls
        return Counter(column.values, nulls)

    @cached_property
    def numbers(self) -> NDArray[np.int64] | None:
        """The number of the episode that each row names, -1 if none; None without such a column."""
        counter = self.counter(EPISODE_NUMBER)
        if counter is None:
            return None
        return np.where(counter.nulls, -1, counter.values.astype(np.int64))

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
        lost = self._lost_rows
        if lost.any():
            found = [span for span in found if not lost[span[1] : span[2]].any()]
        found.sort(key=lambda span: span[1])
        columns = np.array(found, np.int64).reshape(-1, 3)
        return Spans(self, columns[:, 0], columns[:, 1], columns[:, 2])

    def blocks(self) -> Iterator[Block]:
        """Yield the values of all rows that can be read, by blocks of whole episodes."""
        waiting: Block | None = None
        for piece in self._pieces():
            block = piece
            if waiting is not None:
                follows = waiting.stop == piece.start
                if follows and waiting.columns.keys() == piece.columns.keys():
                    block = waiting.joined(piece)
                else:
                    yield self._with_counters(waiting)
            # The last episode goes on in the next piece: it waits for the rest.
            cut = self.spans.start[(self.spans.start < block.stop) & (self.spans.stop > block.stop)]
            end = max(block.start, int(cut[0])) if len(cut) else block.stop
            waiting = block.rows(end, block.stop) if end < block.stop else None
            if block.start < end:
                yield self._with_counters(block.rows(block.start, end))
        if waiting is not None:
            yield self._with_counters(waiting)

    def _with_counters(self, block: Block) -> Block:
        start, stop = block.start, block.stop
        counters = {name: column.rows(start, stop) for name, column in self.counters.items()}
        return Block(self, start, stop, {**block.columns, **counters})

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

    def _read_counters(self, *, reads_values: bool) -> Mapping[str, ScannedColumn]:
        names = [name for name in COUNTERS if name in self.scanned.column_names]
        groups = range(len(self.scanned.group_bounds) - 1)
        if not groups:
            return {}
        is_small = reads_values and self.num_rows <= self._rows_per_block
        values = self._value_names if is_small else []
        pieces = list(self._read(groups, [*names, *values]))
        if is_small:
            self._values = [piece.of(values) for piece in pieces]
        return reduce(Block.joined, [self._filled(piece, names) for piece in pieces]).columns

    def _filled(self, piece: Block, names: Sequence[str]) -> Block:
        """Return the counters of a piece, with nulls for those that cannot be read."""
        count = piece.stop - piece.start
        lost = np.ones(count, bool)
        columns = {
            name: ScannedColumn(count, "", np.zeros(count, COUNTERS[name].numpy_dtype), lost)
            for name in names
        }
        return replace(piece, columns={**columns, **piece.of(names).columns})

    @property
    def _rows_per_block(self) -> int:
        features = self.context.manifest.features
        sizes = [
            math.prod(features[name].shape) * features[name].numpy_dtype.itemsize
            for name in self._value_names
        ]
        return max(1, _BLOCK_BYTES // max(8, sum(sizes)))

    def _pieces(self) -> Iterator[Block]:
        """Yield the values of adjacent row groups."""
        if self._values is not None:
            yield from self._values
            return
        bounds, names, limit = self.scanned.group_bounds, self._value_names, self._rows_per_block
        group, last = 0, len(bounds) - 1
        while group < last:
            stop = int(np.searchsorted(bounds, bounds[group] + limit, side="right")) - 1
            stop = max(stop, group + 1)
            if bounds[stop] - bounds[group] > 2 * limit:
                yield from self._read_large(group, names, limit)
            else:
                yield from self._read(range(group, stop), names)
            group = stop

    def _read(self, groups: Sequence[int], names: Sequence[str]) -> Iterator[Block]:
        """Yield columns of some row groups: all together, or one by one if that fails."""
        bounds = self.scanned.group_bounds
        try:
            columns = self.scanned.read(groups, names)
            yield Block(self, int(bounds[groups[0]]), int(bounds[groups[-1] + 1]), columns)
        except DatasetError:
            for group in groups:
                columns = {}
                for name in names:
                    with self._noting_losses(group, [name]):
                        columns |= self.scanned.read([group], [name])
                yield Block(self, int(bounds[group]), int(bounds[group + 1]), columns)

    def _read_large(self, group: int, names: Sequence[str], limit: int) -> Iterator[Block]:
        """Yield columns of a row group that is larger than a block, part by part."""
        start = int(self.scanned.group_bounds[group])
        fitting = []
        for name in names:
            with self._noting_losses(group, [name]):
                self.scanned.check_size(group, name)
                fitting.append(name)
        with self._noting_losses(group, fitting):
            for columns in self.scanned.read_large(group, fitting, limit) if fitting else ():
                stop = start + next(iter(columns.values())).num_rows
                yield Block(self, start, stop, columns)
                start = stop

    @contextmanager
    def _noting_losses(self, group: int, names: Sequence[str]) -> Iterator[None]:
        """Take note of columns of a row group that cannot be read."""
        try:
            yield
        except DatasetError as error:
            self.losses |= {(group, name): str(error) for name in names}
