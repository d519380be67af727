"""Checks of the data files' rows: how many, whose, in what order, and with which tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check.checks import NotChecked, Scan
from roboreel.findings import finding
from roboreel.format.counters import TASK_NUMBER
from roboreel.format.paths import tasks_path
from roboreel.words import counted, enumerated, name_episodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.check.checks import Outcome
    from roboreel.check.context import Context
    from roboreel.check.data_file import DataFile
    from roboreel.findings import Finding

_INDEX, _FRAME = "index", "frame_index"


class EpisodeRows(Scan):
    """Whether each episode has the rows that the metadata says."""

    codes = ("RR202", "RR204")

    def file(self, file: DataFile) -> Iterator[Finding]:
        """Compare the rows that name an episode with those that the metadata gives to it."""
        if file.num_rows == file.expected_rows:
            yield from self._other_owners(file)
            return
        if file.numbers is None:
            yield self._wrong_total(file)
            return
        episodes = self.context.manifest.episodes
        listed = set(episodes.number[file.positions].tolist())
        strangers = {n: runs for n, runs in file.runs.items() if n not in listed}
        for position in file.positions[self.context.wanted[file.positions]].tolist():
            number, length = int(episodes.number[position]), int(episodes.length[position])
            runs = file.runs.get(number, [])
            stored = sum(stop - start for start, stop in runs)
            if stored == length:
                continue
            if position in file.elsewhere:
                for other, rows in file.elsewhere[position].items():
                    yield finding(
                        "RR204",
                        f"{counted(rows, 'row')} of this file are of episode {number}, which begins "
                        f"in {file.path!r}. They are read with it, by LeRobot too, but it cannot be "
                        "edited.",
                        severity="warning",
                        file=other,
                        episode=number,
                    )
                continue
            if not stored and strangers:
                yield finding(
                    "RR204",
                    f"No row of this file is of episode {number}: its rows name "
                    f"{name_episodes(sorted(strangers))}.",
                    file=file.path,
                    episode=number,
                )
                continue
            yield finding(
                "RR202",
                f"Episode {number} has {counted(length, 'frame')} in the metadata and "
                f"{counted(stored, 'row')} in its data file.",
                file=file.path,
                episode=number,
                rows=file.dataset_rows(position, 0, length),
                fixable=len(runs) == 1,
            )
        if strangers and listed & file.runs.keys():
            rows = sum(stop - start for runs in strangers.values() for start, stop in runs)
            yield finding(
                "RR204",
                f"{counted(rows, 'row')} of this file name {name_episodes(sorted(strangers))}, "
                "which the metadata does not put here.",
                severity="warning",
                file=file.path,
            )

    def _other_owners(self, file: DataFile) -> Iterator[Finding]:
        """Yield episodes whose rows, as the metadata counts them, name another episode."""
        if file.numbers is None:
            return
        wrong = file.numbers != file.expected_numbers
        if not wrong.any():
            return
        episodes = self.context.manifest.episodes
        for position in file.positions[self.context.wanted[file.positions]].tolist():
            start = int(episodes.data_row[position])
            rows = slice(start, start + int(episodes.length[position]))
            places = np.flatnonzero(wrong[rows])
            if not len(places):
                continue
            named = np.unique(file.numbers[rows][places])
            yield finding(
                "RR204",
                f"{counted(len(places), 'row')} of episode {episodes.number[position]} name "
                f"{name_episodes(named)}, first at frame {places[0]}.",
                file=file.path,
                episode=int(episodes.number[position]),
                rows=file.dataset_rows(position, int(places[0]), int(places[-1]) + 1),
            )

    def _wrong_total(self, file: DataFile) -> Finding:
        numbers = self.context.manifest.episodes.number[file.positions]
        return finding(
            "RR202",
            f"{name_episodes(numbers).capitalize()} have {file.expected_rows:,} frames in "
            f"the metadata, the file has {counted(file.num_rows, 'row')}.",
            file=file.path,
            episode=int(numbers[0]) if len(numbers) == 1 else None,
            fixable=len(numbers) == 1 and file.num_rows > 0,
        )


class RowCount(Scan):
    """Whether the column index counts the rows of the dataset, from 0 and without gaps."""

    codes = ("RR205",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._next: int | None = 0

    def lose(self, feature: str | None) -> None:
        """Start counting anew behind rows that cannot be read."""
        if feature is None or feature == _INDEX:
            self._next = None

    def file(self, file: DataFile) -> Iterator[Finding]:
        """Compare each index with the one before it."""
        column = file.counters.get(_INDEX)
        if column is None or column.values is None or column.values.ndim != 1 or not file.num_rows:
            self._next = None
            return
        values = column.values.astype(np.int64)
        first = int(values[0])
        expected = self._next if self.context.is_whole else None
        steps = np.diff(values, prepend=first - 1 if expected is None else expected - 1)
        permuted = _permuted(file, values)
        # The rows that go on elsewhere are counted in between.
        self._next = None if permuted[-1] or file.elsewhere else int(values[-1]) + 1
        wrong = (steps != 1) & ~permuted
        if column.nulls is not None:
            wrong &= ~column.nulls
        owners = _owners(file)
        for span in np.unique(owners[wrong]).tolist():
            start = int(file.spans.start[span]) if span >= 0 else 0
            stop = int(file.spans.stop[span]) if span >= 0 else file.num_rows
            rows = start + np.flatnonzero(wrong[start:stop] & (owners[start:stop] == span))
            yield self._describe(file, span, rows, values, steps)

    def _describe(
        self,
        file: DataFile,
        span: int,
        rows: NDArray[np.int64],
        values: NDArray[np.int64],
        steps: NDArray[np.int64],
    ) -> Finding:
        first = int(rows[0])
        step, value = int(steps[first]), int(values[first])
        what = "repeats" if step == 0 else "goes back to" if step < 0 else "jumps to"
        position = int(file.spans.position[span]) if span >= 0 else None
        start = int(file.spans.start[span]) if span >= 0 else 0
        more = f", and breaks {counted(len(rows) - 1, 'more time')}" if len(rows) > 1 else ""
        return finding(
            "RR205",
            f"index {what} {value} where {value - step + 1} is due, at row {first} of the file"
            f"{more}. It must count the rows of the dataset from 0.",
            file=file.path,
            episode=None if position is None else self._number(position),
            feature=_INDEX,
            rows=None
            if position is None
            else file.dataset_rows(position, first - start, int(rows[-1]) - start + 1),
        )

    def _number(self, position: int) -> int:
        return int(self.context.manifest.episodes.number[position])


class FrameCount(Scan):
    """Whether the column frame_index counts the frames of each episode, from 0 and in order."""

    codes = ("RR206",)

    def file(self, file: DataFile) -> Iterator[Finding]:
        """Compare each frame_index with the row's place in its episode."""
        column, spans = file.counters.get(_FRAME), file.spans
        if column is None or column.values is None or column.values.ndim != 1:
            return
        rows, owner = spans.rows, spans.owner
        wrong = column.values[rows] != rows - spans.start[owner]
        for span in np.unique(owner[wrong]).tolist():
            start, stop = int(spans.start[span]), int(spans.stop[span])
            position = int(spans.position[span])
            number = int(self.context.manifest.episodes.number[position])
            found = column.values[start:stop]
            first = int(np.flatnonzero(found != np.arange(stop - start))[0])
            yield finding(
                "RR206",
                f"{_describe_frames(found)} in episode {number}: frame_index is "
                f"{found[first]:.15g} at its row {first}.",
                file=file.path,
                episode=number,
                feature=_FRAME,
                rows=file.dataset_rows(position, first, stop - start),
                # Rows that are only out of order can be sorted.
                fixable=np.array_equal(np.sort(found), np.arange(stop - start)),
            )


class Tasks(Scan):
    """Whether each row has a task that is defined, and each task a row."""

    codes = ("RR207", "RR208", "RR209")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._used: set[int] = set()
        self._has_column = False
        self._is_complete = context.is_whole

    def lose(self, feature: str | None) -> None:
        """Take note that a task may be used by rows that cannot be read."""
        if feature is None or feature == TASK_NUMBER:
            self._is_complete = False

    def file(self, file: DataFile) -> Iterator[Finding]:
        """Compare the tasks of the rows with the table of tasks."""
        column = file.counters.get(TASK_NUMBER)
        if column is None or column.values is None or column.values.ndim != 1:
            return
        self._has_column = True
        tasks = self.context.manifest.tasks
        values = column.values
        nulls = np.zeros(len(values), bool) if column.nulls is None else column.nulls
        if values.dtype.kind == "f":  # NaN is no task either.
            nulls = nulls | ~np.isfinite(values)
        there = np.unique(values[~nulls])
        self._used.update(int(task) for task in there)
        # Without any task, RR111 says that the table is missing.
        unknown = [int(task) for task in there if tasks and int(task) not in tasks]
        undefined = np.isin(values, unknown) & ~nulls
        if nulls.any() or undefined.any():
            for span in range(len(file.spans)):
                yield from self._of_episode(file, span, nulls, undefined)

    def state(self) -> dict[str, Any]:
        """Return which tasks rows have."""
        used, is_complete = self._used, self._is_complete
        return {"used": used, "has_column": self._has_column, "is_complete": is_complete}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the tasks of more rows."""
        self._used |= state["used"]
        self._has_column |= state["has_column"]
        self._is_complete &= state["is_complete"]

    def finish(self) -> Iterator[Outcome]:
        """Name the tasks that no row has."""
        if not self.context.manifest.tasks:
            yield NotChecked("RR207", "There are no tasks.")
        if not self._is_complete or not self._has_column:
            yield NotChecked("RR208", "Not all rows were read.")
            return
        for task, text in self.context.manifest.tasks.items():
            if task not in self._used:
                yield finding(
                    "RR208",
                    f"No row has task {task}, {text!r}.",
                    file=tasks_path(self.context.manifest.version),
                )

    def _of_episode(
        self, file: DataFile, span: int, nulls: NDArray[np.bool_], undefined: NDArray[np.bool_]
    ) -> Iterator[Finding]:
        start, stop = int(file.spans.start[span]), int(file.spans.stop[span])
        position = int(file.spans.position[span])
        number = int(self.context.manifest.episodes.number[position])
        values = file.counters[TASK_NUMBER].values
        for code, rows in (
            ("RR207", np.flatnonzero(undefined[start:stop])),
            ("RR209", np.flatnonzero(nulls[start:stop])),
        ):
            if not len(rows) or values is None:
                continue
            named = enumerated(np.unique(values[start:stop][rows]).tolist())
            says = f"task_index {named}, which no task has" if code == "RR207" else "no task_index"
            yield finding(
                code,
                f"{counted(len(rows), 'row')} of episode {number} "
                f"{'has' if len(rows) == 1 else 'have'} {says}.",
                file=file.path,
                episode=number,
                feature=TASK_NUMBER,
                rows=file.dataset_rows(position, int(rows[0]), int(rows[-1]) + 1),
                # Then all of its rows have it.
                fixable=len(self.context.manifest.episodes.tasks_of(position)) == 1,
            )


def _owners(file: DataFile) -> NDArray[np.int64]:
    """Return which of the file's spans each of its rows is of; -1 if of none."""
    owners = np.full(file.num_rows, -1, np.int64)
    owners[file.spans.rows] = file.spans.owner
    return owners


def _permuted(file: DataFile, values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the rows of episodes that are only out of order: RR206 says so."""
    frames = file.counters.get(_FRAME)
    permuted = np.zeros(file.num_rows, bool)
    if frames is None or frames.values is None or frames.values.ndim != 1:
        return permuted
    spans = file.spans
    rows, owner = spans.rows, spans.owner
    moved = frames.values[rows] != rows - spans.start[owner]
    for span in np.unique(owner[moved]).tolist():
        start, stop = int(spans.start[span]), int(spans.stop[span])
        counts = np.arange(stop - start)
        inside = np.sort(values[start:stop])
        if np.array_equal(np.sort(frames.values[start:stop]), counts) and np.array_equal(
            inside - inside[0], counts
        ):
            # The row behind the episode follows its last one, wherever that lies now.
            permuted[start : stop + 1] = True
    return permuted


def _describe_frames(found: NDArray[np.generic]) -> str:
    counts = np.arange(len(found))
    if np.array_equal(np.sort(found), counts):
        return "Rows are out of order"
    if np.array_equal(found, counts + found[0]):
        return f"Frames are counted from {found[0]}, not from 0,"
    if len(np.unique(found)) < len(found):
        return "Frames are counted twice"
    return "Frames are left out"


SCANS: tuple[type[Scan], ...] = (EpisodeRows, RowCount, FrameCount, Tasks)
