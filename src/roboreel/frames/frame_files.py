"""The data files of a dataset: which rows lie where, checked when a file is opened."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError
from roboreel.forking import after_fork
from roboreel.format.counters import EPISODE_NUMBER
from roboreel.spans.mapped import check_mapped
from roboreel.spans.whole import arrow_file
from roboreel.storage.arrow_types import plain_numbers
from roboreel.storage.dense import plain_array
from roboreel.storage.parquet_errors import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import EpisodeTable, FileSet

__all__ = ["FrameFile", "FrameFiles"]

_MAX_OPEN_FILES = 64
_tokens = count()


@dataclass(frozen=True, slots=True, eq=False)
class FrameFile:
    """An open data file."""

    path: Path
    group_bounds: NDArray[np.int64]
    """Row group ``g`` holds the rows ``[group_bounds[g], group_bounds[g + 1])`` of the file."""
    parquet: Any
    leaves: list[str]
    """The columns that hold values, by their paths in the schema."""
    mapped_bytes: int
    """Size of the file if it is mapped, otherwise 0."""
    lock: threading.Lock
    """pyarrow's reader serves one thread at a time."""

    def read(self, group: int, name: str) -> Any:  # noqa: ANN401  # pyarrow is untyped
        """Return one column of one row group as an Arrow array."""
        return self.read_together([group], [name])[name]

    def read_together(self, groups: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
        """Return several columns of some row groups as Arrow arrays, read in one go."""
        there = self.parquet.schema_arrow.names
        for name in names:
            if name not in there:
                raise CorruptFileError(
                    f"{name!r} is described in meta/info.json, but has no column: there are "
                    f"{', '.join(there)}, in {str(self.path)!r}."
                )
        with self.lock, parquet_errors(self.path):
            if self.mapped_bytes:
                check_mapped(self.path, self.mapped_bytes, self.path.stat().st_size)
            table = self.parquet.read_row_groups(groups, columns=list(names), use_threads=False)
        return {name: plain_array(table.column(name)) for name in names}

    def episode_numbers(self, group: int) -> NDArray[np.int64]:
        """Return the episode that each row of a row group says it belongs to; -1 if none."""
        stored = self.read(group, EPISODE_NUMBER)
        if stored.type != pa.int64():
            with parquet_errors(self.path):
                stored = stored.cast(pa.int64())
        return plain_numbers(stored.fill_null(-1) if stored.null_count else stored)

    def describe(self, group: int) -> str:
        """Return the words for a row group in an error."""
        return f"row group {group} of {str(self.path)!r}"


class FrameFiles:
    """All data files of a dataset, opened when first needed and closed when many are open.

    Args:
        root: The dataset.
        files: Their names.
        episodes: Which rows lie where.
        is_mapped: Whether to read them through maps: less memory for a single pass, since Arrow
            keeps what it reads the bytes into.
    """

    def __init__(
        self, root: Path, files: FileSet, episodes: EpisodeTable, *, is_mapped: bool = False
    ) -> None:
        self._root = root
        self._is_mapped = is_mapped
        self._files = files
        self._episodes = episodes
        self._lock = threading.RLock()
        self._open: OrderedDict[int, FrameFile] = OrderedDict()
        self._bounds: dict[int, NDArray[np.int64]] = {}
        self.num_rows = episodes.num_rows
        """Rows of all files together."""
        self.lengths = episodes.length
        """Rows of each episode, by its position."""
        # Corrected where a file turns out to hold more than the metadata lists.
        self._data_row = episodes.data_row.copy()
        self._checked = np.zeros(len(files), dtype=bool)
        self._by_file = np.argsort(episodes.data_file, kind="stable")
        self._file_bounds = np.searchsorted(
            episodes.data_file[self._by_file], np.arange(len(files) + 1)
        )
        order = episodes.row_order
        self._row_starts = episodes.start[order]
        self._row_episodes = order
        self.token = f"frames {next(_tokens)}"
        """Begins the keys under which a budget holds what was read from these files."""
        # A child must share neither the locks nor the readers of its parent.
        after_fork(self, FrameFiles._after_fork)

    def episodes_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of the episode that each row belongs to."""
        return self._row_episodes[self._row_starts.searchsorted(rows, side="right") - 1]

    def locate(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the file of each row and its row inside that file; both as ``rows``.

        Raises:
            MissingFileError: A file is not there; the error names the episode.
            CorruptFileError: A file is damaged or does not hold what the metadata says.
        """
        positions = self.episodes_of(rows)
        files = self._episodes.data_file[positions]
        if not self._checked[files].all():
            for file in np.unique(files[~self._checked[files]]).tolist():
                self._check(file)
        return files, self._data_row[positions] + (rows - self._episodes.start[positions])

    def locate_one(self, row: int) -> tuple[int, int]:
        """Return the file of one row and its row inside that file, as `locate` does."""
        position = self._row_episodes.item(self._row_starts.searchsorted(row, side="right") - 1)
        file = self._episodes.data_file.item(position)
        if not self._checked[file]:
            self._check(file)
        return file, self._data_row.item(position) + row - self._episodes.start.item(position)

    def rows_of_group(self, file: int, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the dataset's rows in a row group, and where in the group each of them lies."""
        bounds = self.group_bounds(file)
        first, last = int(bounds[group]), int(bounds[group + 1])
        episodes = self._episodes
        positions = self._positions(file)
        # In the order of the file, whatever the episodes are numbered.
        positions = positions[np.argsort(self._data_row[positions], kind="stable")]
        begin = np.maximum(self._data_row[positions], first)
        end = np.minimum(self._data_row[positions] + episodes.length[positions], last)
        inside = np.flatnonzero(begin < end)
        spans = [np.arange(begin[i], end[i]) for i in inside]
        shifts = [
            np.full(len(span), episodes.start[p] - self._data_row[p])
            for p, span in zip(positions[inside], spans, strict=True)
        ]
        if not spans:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        in_file = np.concatenate(spans)
        return in_file + np.concatenate(shifts), in_file - first

    def group_bounds(self, file: int) -> NDArray[np.int64]:
        """Return where a file's row groups begin and end; kept when the file is closed."""
        bounds = self._bounds.get(file)
        if bounds is None:
            bounds = self._bounds[file] = self.open(file).group_bounds
        return bounds

    def path(self, file: int) -> Path:
        """Return where a file lies."""
        return self._root / self._files[file]

    def open(self, file: int) -> FrameFile:
        """Return a file, open for reading."""
        with self._lock:
            held = self._open.get(file)
            if held is not None:
                self._open.move_to_end(file)
                return held
        opened = self._open_file(file)
        with self._lock:
            self._open[file] = opened
            while len(self._open) > _MAX_OPEN_FILES:
                # Not closed here, since a thread may be reading: the last reference closes it.
                self._open.popitem(last=False)
        return opened

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        self._open = OrderedDict()

    def _positions(self, file: int) -> NDArray[np.int64]:
        """Return the positions of the episodes in a file."""
        return self._by_file[self._file_bounds[file] : self._file_bounds[file + 1]]

    def _open_file(self, file: int) -> FrameFile:
        path = self.path(file)
        with parquet_errors(path, episodes=self._describe_episodes(file)):
            mapped_bytes = path.stat().st_size if self._is_mapped else 0
            parquet = pq.ParquetFile(arrow_file(path, is_mapped=self._is_mapped))
            metadata = parquet.metadata
            sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
            leaves = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        return FrameFile(path, bounds, parquet, leaves, mapped_bytes, threading.Lock())

    def _describe_episodes(self, file: int) -> str:
        numbers = self._episodes.number[self._positions(file)]
        if len(numbers) == 1:
            return f"episode {numbers[0]}"
        return f"episodes {numbers.min()} to {numbers.max()}"

    def _check(self, file: int) -> None:
        """Compare a file with the metadata; find the episodes by their numbers if need be."""
        opened = self.open(file)
        positions = self._positions(file)
        expected = int(self._episodes.length[positions].sum())
        there = int(opened.group_bounds[-1])
        alone = len(positions) == 1 and there == expected
        if not alone and (there != expected or not self._numbers_agree(opened, positions)):
            self._find_by_number(opened, positions)
        self._checked[file] = True

    def _numbers_agree(self, file: FrameFile, positions: NDArray[np.int64]) -> bool:
        """Whether the file's episode numbers are those that the metadata expects.

        A row group of one episode is judged by the range in its statistics; one of several, or
        without statistics, by its numbers.
        """
        names = file.parquet.schema_arrow.names
        metadata = file.parquet.metadata
        if EPISODE_NUMBER not in names or EPISODE_NUMBER not in file.leaves:
            return True
        leaf = file.leaves.index(EPISODE_NUMBER)
        order = positions[np.argsort(self._data_row[positions], kind="stable")]
        order = order[self._episodes.length[order] > 0]
        starts, numbers = self._data_row[order], self._episodes.number[order]
        bounds = file.group_bounds
        first_places = (np.searchsorted(starts, bounds[:-1], side="right") - 1).tolist()
        last_places = (np.searchsorted(starts, bounds[1:] - 1, side="right") - 1).tolist()
        for group, (first, last) in enumerate(zip(first_places, last_places, strict=True)):
            if bounds[group] == bounds[group + 1]:
                continue
            statistics = metadata.row_group(group).column(leaf).statistics
            if first == last and statistics is not None and statistics.has_min_max:
                if not statistics.min == statistics.max == numbers[first]:
                    return False
            else:
                rows = np.arange(bounds[group], bounds[group + 1])
                expected = numbers[np.searchsorted(starts, rows, side="right") - 1]
                if not np.array_equal(file.episode_numbers(group), expected):
                    return False
        return True

    def _find_by_number(self, file: FrameFile, positions: NDArray[np.int64]) -> None:
        groups = range(len(file.group_bounds) - 1)
        parts = [file.episode_numbers(group) for group in groups]
        stored = np.concatenate(parts) if parts else np.empty(0)
        change = np.flatnonzero(np.diff(stored)) + 1
        starts = np.concatenate([[0], change]).astype(np.int64) if len(stored) else change
        stops = np.concatenate([change, [len(stored)]]).astype(np.int64) if len(stored) else change
        runs = {int(stored[a]): (int(a), int(b)) for a, b in zip(starts, stops, strict=True)}
        for position in positions.tolist():
            number, length = (
                int(self._episodes.number[position]),
                int(self._episodes.length[position]),
            )
            start, stop = runs.get(number, (0, 0))
            if stop - start != length:
                raise CorruptFileError(
                    f"Episode {number} has {length} frames in the metadata and {stop - start} in its "
                    f"data file. Run `roboreel info` on the dataset; the file is {str(file.path)!r}."
                )
            self._data_row[position] = start
