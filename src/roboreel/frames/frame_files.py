"""The data files of a dataset: which rows lie where, checked when a file is opened."""

from __future__ import annotations

import threading
from itertools import count, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roboreel.distinct import distinct
from roboreel.errors import CorruptFileError, MissingFileError
from roboreel.forking import after_fork
from roboreel.format.counters import EPISODE_NUMBER
from roboreel.frames.unchanged import telling_changes
from roboreel.io.budget import process_budget
from roboreel.io.kept_open import KeptOpen
from roboreel.io.mapped import changed_file
from roboreel.parquet.reader import parquet_errors
from roboreel.parquet.row_groups import OpenFiles, RowGroups

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.io.budget import Budget
    from roboreel.schema import EpisodeTable, FileSet


_MAX_OPEN_FILES = 64
# Episode numbers are compared this much at a time.
_AT_ONCE_BYTES = 2**20
_tokens = count()


class RowsThere(NamedTuple):
    """The dataset's rows in some rows of a file; those that cannot be located are left out."""

    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    """Where each lies, counted from the first of the file's rows."""


class Part(NamedTuple):
    """Adjacent rows of a file, which are adjacent rows of an episode."""

    file: int
    first: int
    num_rows: int


class FrameFiles:
    """All data files of a dataset, opened when first needed and closed when many are open.

    Args:
        root: The dataset's folder.
        files: Names of the files.
        episodes: Which rows lie where.
        budget: Holds what pyarrow makes of their footers. Default: the process's budget.
        confirm: Called once a file was opened for the first time; raises if it may be another one
            than the table says.
    """

    def __init__(
        self,
        root: Path,
        files: FileSet,
        episodes: EpisodeTable,
        budget: Budget | None = None,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = root
        self._files = files
        self._episodes = episodes
        self._confirm = confirm
        self._open: KeptOpen[int, RowGroups] = KeptOpen(limit=_MAX_OPEN_FILES)
        self._arrow_files = OpenFiles(budget or process_budget())
        self._bounds: dict[int, NDArray[np.int64]] = {}
        self._versions: dict[int, object] = {}
        """What changes when a file is replaced, of those that were opened."""
        self.num_rows = episodes.num_rows
        """Rows of all files together."""
        self.lengths = episodes.length
        """Rows of each episode, by its position."""
        # Corrected if a file turns out to hold more rows than the metadata lists.
        self._data_row = episodes.data_row.copy()
        self._checked = np.zeros(len(files), dtype=bool)
        self._wrong: dict[int, str] = {}
        """By position, why the rows of an episode cannot be located in a file that was checked."""
        self._spread: dict[int, list[Part]] = {}
        """By position, the rows of an episode that goes on in the files after its own."""
        self._unlisted: list[tuple[tuple[int, int], int]] = []
        """Numbers in the names of files that no episode names, and an episode that goes on there."""
        self._by_file = np.argsort(episodes.data_file, kind="stable")
        self._file_bounds = np.searchsorted(
            episodes.data_file[self._by_file], np.arange(len(files) + 1)
        )
        order = episodes.row_order
        self._row_starts = episodes.start[order]
        self._row_episodes = order
        self._begin()
        after_fork(self, FrameFiles._begin)
        self.token = f"frames {next(_tokens)}"
        """Starts the keys under which a budget holds what was read from these files."""

    def _begin(self) -> None:
        self._checking = threading.Lock()

    def episodes_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of the episode that each row belongs to."""
        return self._row_episodes[self._row_starts.searchsorted(rows, side="right") - 1]

    def locate(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the file of each row and its row inside that file, both shaped as ``rows``.

        Raises:
            MissingFileError: A file is missing; the error names its episodes.
            CorruptFileError: A file is damaged or disagrees with the metadata.
        """
        positions = self.episodes_of(rows)
        files = self._episodes.data_file[positions]
        if not self._checked[files].all():
            for file in distinct(files[~self._checked[files]]).tolist():
                self._check_once(file)
        if self._wrong:
            for position in distinct(positions).tolist():
                self._refuse_wrong(position)
        places = self._data_row[positions] + (rows - self._episodes.start[positions])
        if self._spread:
            for position in distinct(positions).tolist():
                before = int(self._episodes.start[position])
                for part in self._spread.get(position, ()):
                    here = (
                        (rows >= before) & (rows < before + part.num_rows) & (positions == position)
                    )
                    files[here], places[here] = part.file, rows[here] - before + part.first
                    before += part.num_rows
        return files, places

    def locate_one(self, row: int) -> tuple[int, int]:
        """Return the file of one row and its row inside that file, as `locate` does."""
        position = self._row_episodes.item(self._row_starts.searchsorted(row, side="right") - 1)
        file = self._episodes.data_file.item(position)
        if not self._checked[file]:
            self._check_once(file)
        self._refuse_wrong(position)
        if position in self._spread:
            (part,) = self.parts(row, row + 1)
            return part.file, part.first
        return file, self._data_row.item(position) + row - self._episodes.start.item(position)

    def parts(self, start: int, stop: int) -> list[Part]:
        """Return where the rows ``[start, stop)`` of one episode lie: one part, or one in each file.

        Raises:
            MissingFileError, CorruptFileError: As `locate` does.
        """
        position = int(self.episodes_of(np.asarray([start]))[0])
        if position not in self._spread:
            file, first = self.locate_one(start)
            if position not in self._spread:
                return [Part(file, first, stop - start)]
        found, before = [], int(self._episodes.start[position])
        for part in self._spread[position]:
            begin, end = max(start, before), min(stop, before + part.num_rows)
            if begin < end:
                found.append(Part(part.file, part.first + begin - before, end - begin))
            before += part.num_rows
        return found

    def rows_of_span(self, file: int, first: int, last: int) -> RowsThere:
        """Return the dataset's rows in the rows ``[first, last)`` of a file."""
        episodes = self._episodes
        positions = self._positions(file)
        if self._wrong or self._spread:
            is_whole = [p not in self._wrong and p not in self._spread for p in positions.tolist()]
            positions = positions[np.array(is_whole, bool)]
        rows, begins, lengths = (
            episodes.start[positions],
            self._data_row[positions],
            episodes.length[positions],
        )
        for position, parts in self._spread.items():
            row = episodes.start[position]
            for part in parts:
                if part.file == file:
                    rows, begins = np.append(rows, row), np.append(begins, part.first)
                    lengths = np.append(lengths, part.num_rows)
                row += part.num_rows
        # In the order of the file, which need not be that of the episode numbers.
        order = np.argsort(begins, kind="stable")
        rows, begins, lengths = (column[order] for column in (rows, begins, lengths))
        begin, end = np.maximum(begins, first), np.minimum(begins + lengths, last)
        inside = np.flatnonzero(begin < end)
        counts = (end - begin)[inside]
        before = np.cumsum(counts) - counts
        in_file = np.arange(counts.sum()) + np.repeat(begin[inside] - before, counts)
        rows = in_file + np.repeat((rows - begins)[inside], counts)
        return RowsThere(rows, in_file - first)

    def group_bounds(self, file: int) -> NDArray[np.int64]:
        """Return where a file's row groups start and stop; kept after the file is closed."""
        bounds = self._bounds.get(file)
        if bounds is None:
            bounds = self._bounds[file] = self.open(file).bounds
        return bounds

    def tidy(self) -> None:
        """Return the memory of closed files to the system, if it is much."""
        self._arrow_files.tidy()

    def note_freed(self, size_bytes: int) -> None:
        """Count memory that was freed; much of it is returned to the system."""
        self._arrow_files.note_freed(size_bytes)

    def path(self, file: int) -> Path:
        """Return where a file lies."""
        return self.root / self._name(file)

    def open(self, file: int) -> RowGroups:
        """Return a file, open for reading."""
        return self._open.get(file, lambda: self._open_file(file))

    def let_go(self, file: int) -> None:
        """Close a file, whose footer may take much memory; it is opened again if need be."""
        self._open.discard(file)

    def _name(self, file: int) -> str:
        if file < len(self._files):
            return self._files[file]
        chunk, place = self._key(file)
        files = self._files
        return files.template.format(chunk_index=chunk, file_index=place, **files.constants)

    def _refuse_wrong(self, position: int) -> None:
        if position in self._wrong:
            raise CorruptFileError(self._wrong[position])

    def _positions(self, file: int) -> NDArray[np.int64]:
        """Return the positions of the episodes that the metadata puts into a file."""
        if file >= len(self._files):
            return np.zeros(0, np.int64)
        return self._by_file[self._file_bounds[file] : self._file_bounds[file + 1]]

    def _open_file(self, file: int) -> RowGroups:
        path = self.path(file)
        with (
            telling_changes(self._confirm),
            parquet_errors(path, episodes=self._describe_episodes(file)),
        ):
            opened = RowGroups(path, self._arrow_files)
        self._check_version(file, opened.version)
        return opened

    def _check_version(self, file: int, version: object) -> None:
        """Raise if a file was replaced after its row groups were counted, or the dataset changed."""
        if file not in self._versions:
            self._confirm()
        if self._versions.setdefault(file, version) != version:
            raise changed_file(self.path(file))

    def _describe_episodes(self, file: int) -> str:
        if file >= len(self._files):
            return f"episode {self._unlisted[file - len(self._files)][1]}"
        numbers = self._episodes.number[self._positions(file)]
        if len(numbers) == 1:
            return f"episode {numbers[0]}"
        return f"episodes {numbers.min()} to {numbers.max()}"

    def _check_once(self, file: int) -> None:
        """Check a file, unless another thread does: its footer may take much memory."""
        with self._checking:
            done, waiting = [], [] if self._checked[file] else [file]
            while waiting:
                done.append(waiting.pop())
                self._check(done[-1])
                # With the files where its episodes go on: a row group is read as a whole.
                for position in self._positions(done[-1]).tolist():
                    goes_on = {part.file for part in self._spread.get(position, ())}
                    waiting += [
                        one
                        for one in goes_on - {*done, *waiting}
                        if one < len(self._files) and not self._checked[one]
                    ]
            self._checked[done] = True  # All at once: other threads do not wait any more.

    def _check(self, file: int) -> None:
        """Compare a file with the metadata. If they differ, find its episodes by their numbers."""
        opened = self.open(file)
        positions = self._positions(file)
        expected = int(self._episodes.length[positions].sum())
        there = int(opened.bounds[-1])
        alone = len(positions) == 1 and there == expected
        if not alone and (there != expected or not self._numbers_agree(opened, positions)):
            self._find_by_number(file, positions)

    def _numbers_agree(self, file: RowGroups, positions: NDArray[np.int64]) -> bool:
        """Whether the file's episode numbers are those that the metadata expects.

        A row group of one episode is judged by its stored minimum and maximum; one of several
        episodes, or without these, by its numbers.
        """
        if not file.has_values(EPISODE_NUMBER):
            return True
        order = positions[np.argsort(self._data_row[positions], kind="stable")]
        order = order[self._episodes.length[order] > 0]
        starts, numbers = self._data_row[order], self._episodes.number[order]
        bounds = file.bounds
        first_places = (np.searchsorted(starts, bounds[:-1], side="right") - 1).tolist()
        last_places = (np.searchsorted(starts, bounds[1:] - 1, side="right") - 1).tolist()
        mixed = []
        for group, (first, last) in enumerate(zip(first_places, last_places, strict=True)):
            if bounds[group] == bounds[group + 1]:
                continue
            extremes = file.reader.extremes(group, EPISODE_NUMBER) if first == last else None
            if extremes is None:
                mixed.append(group)
            # Decimals, which a damaged file may hold, compare with Python's numbers alone.
            elif extremes != (int(numbers[first]), int(numbers[first])):
                return False
        return self._rows_agree(file, mixed, starts, numbers)

    def _rows_agree(
        self,
        file: RowGroups,
        groups: list[int],
        starts: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> bool:
        if not groups:
            return True
        ends = np.cumsum(np.diff(file.bounds)[groups])
        shift, place = file.bounds[1:][groups] - ends, 0
        for stored in file.integers(groups, EPISODE_NUMBER, _AT_ONCE_BYTES):
            places = np.arange(place, place + len(stored))
            rows = places + shift[np.searchsorted(ends, places, side="right")]
            expected = numbers[np.searchsorted(starts, rows, side="right") - 1]
            if not np.array_equal(stored, expected):
                return False
            place += len(stored)
        return True

    def _runs(self, file: RowGroups) -> dict[int, tuple[int, int]]:
        """Return the rows of the last run of each episode number."""
        if not file.has_values(EPISODE_NUMBER):
            return {}
        runs: dict[int, tuple[int, int]] = {}
        row, last = 0, None
        groups = range(len(file.bounds) - 1)
        for stored in file.integers(groups, EPISODE_NUMBER, _AT_ONCE_BYTES):
            change = (np.flatnonzero(np.diff(stored)) + 1).tolist()
            for start, stop in pairwise([0, *change, len(stored)]):
                if start == stop:
                    continue
                number = int(stored[start])
                goes_on = start == 0 and number == last
                runs[number] = (runs[number][0] if goes_on else row + start, row + stop)
                last = number
            row += len(stored)
        return runs

    def _find_by_number(self, file: int, positions: NDArray[np.int64]) -> None:
        opened = self.open(file)
        runs = self._runs(opened)
        for position in positions.tolist():
            number = int(self._episodes.number[position])
            length = int(self._episodes.length[position])
            start, stop = runs.get(number, (0, 0))
            if stop - start == length:
                self._data_row[position] = start
            elif not self._find_spread(position, Part(file, start, stop - start)):
                # Its neighbours can be read all the same.
                self._wrong[position] = (
                    f"Episode {number} has {length} frames in the metadata and {stop - start} in its "
                    f"data file. Run `roboreel check` on the dataset; the file is "
                    f"{str(opened.path)!r}."
                )
        # Rows of an episode that begins in another file have to be known before any row is read.
        for number in [number for number, (start, _) in runs.items() if start == 0]:
            for position in np.flatnonzero(self._episodes.number == number).tolist():
                other = int(self._episodes.data_file[position])
                if other != file and position not in self._spread:
                    start, stop = self._runs(self.open(other)).get(number, (0, 0))
                    self._find_spread(position, Part(other, start, stop - start))

    def _find_spread(self, position: int, first: Part) -> bool:
        """Look for the other rows of an episode at the start of the files that follow its own.

        LeRobot goes by the rows of all files, one after the other, and reads such episodes.
        """
        number, parts = int(self._episodes.number[position]), [first]
        lacking = int(self._episodes.length[position]) - first.num_rows
        while lacking > 0 and parts[-1].num_rows:
            file, before, _ = parts[-1]
            if before + parts[-1].num_rows != self.open(file).bounds[-1]:
                return False
            following = self._file_after(file, number)
            if following is None:
                return False
            start, stop = self._runs(self.open(following)).get(number, (0, 0))
            if start or stop > lacking:
                return False
            parts.append(Part(following, 0, stop))
            lacking -= stop
        if lacking or len(parts) == 1:
            return False
        self._spread[position] = parts
        return True

    def _file_after(self, file: int, number: int) -> int | None:
        """Return the data file after another one, by the numbers in their names; None for the last."""
        if self._files.numbers.keys() != {"chunk_index", "file_index"}:
            return None  # A file for each episode.
        chunk, place = self._key(file)
        known = [self._key(one) for one in range(len(self._files))]
        known += [key for key, _ in self._unlisted]
        later = min((key for key in known if key > (chunk, place)), default=(chunk + 1, 0))
        for key in sorted({(chunk, place + 1), (chunk + 1, 0), later}):
            if key in known:
                return known.index(key)
            self._unlisted.append((key, number))
            try:
                self.open(len(known))
            except MissingFileError:
                self._unlisted.pop()
            else:
                return len(known)
        return None

    def _key(self, file: int) -> tuple[int, int]:
        """Return the numbers in the name of a file."""
        if file >= len(self._files):
            return self._unlisted[file - len(self._files)][0]
        numbers = self._files.numbers
        return int(numbers["chunk_index"][file]), int(numbers["file_index"][file])
