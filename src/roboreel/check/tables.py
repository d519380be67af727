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
    from roboreel.check.data_file import DataFile, StoredEpisode
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
            yield self.context.episode_finding(
                "RR202",
                f"Episode {number} has {counted(length, 'frame')} in the metadata and "
                f"{counted(stored, 'row')} in its data file.",
                position,
                file=file.path,
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
            frames = np.flatnonzero(wrong[rows])
            if not len(frames):
                continue
            named = np.unique(file.numbers[rows][frames])
            yield self.context.episode_finding(
                "RR204",
                f"{counted(len(frames), 'row')} of episode {episodes.number[position]} name "
                f"{name_episodes(named)}, first at frame {frames[0]}.",
                position,
                (int(frames[0]), int(frames[-1]) + 1),
                file=file.path,
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
        counter = file.counter(_INDEX)
        if counter is None or not file.num_rows:
            self._next = None
            return
        values = counter.values.astype(np.int64)
        due = int(values[0]) if self._next is None or not self.context.is_whole else self._next
        steps = np.diff(values, prepend=due - 1)
        permuted = _permuted(file, values)
        # The rows that go on elsewhere are counted in between.
        self._next = None if permuted[-1] or file.elsewhere else int(values[-1]) + 1
        wrong = (steps != 1) & ~permuted & ~counter.nulls
        owners = np.full(file.num_rows, -1, np.int64)
        owners[file.spans.rows] = file.spans.owner
        for span in np.unique(owners[wrong]).tolist():
            start = int(file.spans.start[span]) if span >= 0 else 0
            stop = int(file.spans.stop[span]) if span >= 0 else file.num_rows
            rows = start + np.flatnonzero(wrong[start:stop] & (owners[start:stop] == span))
            first = int(rows[0])
            says = _describe_step(first, int(values[first]), int(steps[first]), len(rows))
            if span < 0:
                yield finding("RR205", says, file=file.path, feature=_INDEX)
            else:
                frames = first - start, rows[-1] - start + 1
                yield file.spans[span].finding("RR205", says, *frames, feature=_INDEX)


def _describe_step(row: int, value: int, step: int, count: int) -> str:
    what = "repeats" if step == 0 else "goes back to" if step < 0 else "jumps to"
    more = f", and breaks {counted(count - 1, 'more time')}" if count > 1 else ""
    return (
        f"index {what} {value} where {value - step + 1} is due, at row {row} of the file{more}. It "
        "must count the rows of the dataset from 0."
    )


class FrameCount(Scan):
    """Whether the column frame_index counts the frames of each episode, from 0 and in order."""

    codes = ("RR206",)

    def file(self, file: DataFile) -> Iterator[Finding]:
        """Compare each frame_index with the row's place in its episode."""
        counter, spans = file.counter(_FRAME), file.spans
        if counter is None:
            return
        for episode, frames in spans.where(counter.values[spans.rows] != spans.frames):
            found, first = counter.values[episode.start : episode.stop], int(frames[0])
            yield episode.finding(
                "RR206",
                f"{_describe_frames(found)} in episode {episode.number}: frame_index is "
                f"{found[first]:.15g} at its row {first}.",
                first,
                len(found),
                feature=_FRAME,
                # Rows that are only out of order can be sorted.
                fixable=np.array_equal(np.sort(found), np.arange(len(found))),
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
        counter = file.counter(TASK_NUMBER)
        if counter is None:
            return
        self._has_column = True
        tasks = self.context.manifest.tasks
        values, nulls = counter
        if values.dtype.kind == "f":  # NaN is no task either.
            nulls = nulls | ~np.isfinite(values)
        there = np.unique(values[~nulls])
        self._used.update(int(task) for task in there)
        # Without any task, RR111 says that the table is missing.
        unknown = [int(task) for task in there if tasks and int(task) not in tasks]
        for code, wrong in ("RR207", np.isin(values, unknown) & ~nulls), ("RR209", nulls):
            for episode, frames in file.spans.where(wrong[file.spans.rows]):
                yield self._without_task(code, episode, frames, values)

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

    def _without_task(
        self, code: str, episode: StoredEpisode, frames: NDArray[np.int64], values: NDArray[Any]
    ) -> Finding:
        named = enumerated(np.unique(values[episode.start : episode.stop][frames]).tolist())
        says = f"task_index {named}, which no task has" if code == "RR207" else "no task_index"
        return episode.finding(
            code,
            f"{counted(len(frames), 'row')} of episode {episode.number} "
            f"{'has' if len(frames) == 1 else 'have'} {says}.",
            frames[0],
            frames[-1] + 1,
            feature=TASK_NUMBER,
            # Then all of its rows have it.
            fixable=len(self.context.manifest.episodes.tasks_of(episode.position)) == 1,
        )


def _permuted(file: DataFile, values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the rows of episodes that are only out of order: RR206 says so."""
    counter, spans = file.counter(_FRAME), file.spans
    permuted = np.zeros(file.num_rows, bool)
    if counter is None:
        return permuted
    for episode, _ in spans.where(counter.values[spans.rows] != spans.frames):
        start, stop = episode.start, episode.stop
        counts, inside = np.arange(stop - start), np.sort(values[start:stop])
        if np.array_equal(np.sort(counter.values[start:stop]), counts) and np.array_equal(
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
