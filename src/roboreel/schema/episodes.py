"""The episodes of a dataset as columns: numbers, rows, files, clips and tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import EpisodeNotFoundError, TaskNotFoundError
from roboreel.numbers import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class ClipTable:
    """Where the images of one camera are, for each episode: a file and a part of its time."""

    file: NDArray[np.int64]
    """Position in the camera's `FileSet`, ``(E,)``."""
    start_s: NDArray[np.float64]
    """Time of the first image inside the file, ``(E,)``."""
    stop_s: NDArray[np.float64]
    """Time right after the last image, ``(E,)``."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClipTable):
            return NotImplemented
        return (
            np.array_equal(self.file, other.file)
            and np.array_equal(self.start_s, other.start_s)
            and np.array_equal(self.stop_s, other.stop_s)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class EpisodeTable:
    """All episodes as columns, in ascending order of their numbers.

    Rows are counted over the whole dataset: episode ``i`` holds the rows
    ``[start[i], start[i] + length[i])``, and the episodes together hold ``0 … N - 1``.
    """

    number: NDArray[np.int64]
    """Number of each episode, ``(E,)``, ascending; nearly always ``0 … E - 1``."""
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    data_file: NDArray[np.int64]
    """Position in the dataset's data `FileSet`, ``(E,)``."""
    data_row: NDArray[np.int64]
    """First row of the episode inside its data file, ``(E,)``."""
    clips: Mapping[str, ClipTable]
    """One entry per video camera."""
    task_bounds: NDArray[np.int64]
    """Episode ``i`` has the tasks ``task_codes[task_bounds[i]:task_bounds[i + 1]]``, ``(E + 1,)``."""
    task_codes: NDArray[np.int64]
    """Positions in ``task_texts``."""
    task_texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.number)

    @property
    def num_rows(self) -> int:
        """Frames of all episodes together."""
        return int(self.length.sum())

    @cached_property
    def row_order(self) -> NDArray[np.int64]:
        """Positions of the episodes that have rows, in the order of their rows."""
        filled = np.flatnonzero(self.length > 0)
        return filled[np.argsort(self.start[filled], kind="stable")]

    def tasks_of(self, position: int) -> tuple[str, ...]:
        """Return the tasks of one episode."""
        codes = self.task_codes[self.task_bounds[position] : self.task_bounds[position + 1]]
        return tuple(self.task_texts[code] for code in codes)

    def first_task(self, position: int) -> str:
        """Return the first task of one episode; an empty text if it has none."""
        return " ".join(self.tasks_of(position)[:1])

    def task_texts_of(self, positions: NDArray[np.int64]) -> frozenset[str]:
        """Return all tasks that some episodes have."""
        owners = np.repeat(np.arange(len(self)), np.diff(self.task_bounds))
        codes = np.unique(self.task_codes[np.isin(owners, positions)])
        return frozenset(self.task_texts[code] for code in codes)

    def has_task(self, tasks: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each episode has one of these tasks, ``(E,)``.

        Raises:
            TaskNotFoundError: No episode has one of the tasks.
        """
        unknown = [task for task in tasks if task not in self.task_texts]
        if unknown:
            known = ", ".join(repr(task) for task in self.task_texts[:10])
            raise TaskNotFoundError(f"No episode has the task {unknown[0]!r}: there are {known}.")
        wanted = np.isin(self.task_codes, [self.task_texts.index(task) for task in tasks])
        hits = np.concatenate([[0], np.cumsum(wanted)])
        return np.asarray(hits[self.task_bounds[1:]] > hits[self.task_bounds[:-1]])

    def positions_of(self, numbers: Iterable[int]) -> NDArray[np.int64]:
        """Return the positions in the table of the episodes with these numbers.

        Raises:
            TypeError: They are not whole numbers.
            EpisodeNotFoundError: No episode has a number.
        """
        wanted = whole_numbers(numbers, "episode")
        found = np.searchsorted(self.number, wanted)
        there = found < len(self)
        there[there] = self.number[found[there]] == wanted[there]
        if not there.all():
            raise EpisodeNotFoundError(
                f"Episode {int(wanted[~there][0])} does not exist: "
                f"{describe_episodes(self.number)}."
            )
        return found.astype(np.int64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EpisodeTable):
            return NotImplemented
        return (
            all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("number", "start", "length", "data_file", "data_row", "task_bounds")
            )
            and dict(self.clips) == dict(other.clips)
            and [self.tasks_of(i) for i in range(len(self))]
            == [other.tasks_of(i) for i in range(len(other))]
        )

    __hash__ = None  # type: ignore[assignment]


def describe_episodes(numbers: NDArray[np.int64]) -> str:
    """Return which episodes there are, for an error: ``there are 5 episodes, 0 to 4``.

    Args:
        numbers: Their numbers, ascending.
    """
    if len(numbers) < 2:
        return f"there is only episode {numbers[0]}" if len(numbers) else "there are no episodes"
    gaps = "" if numbers[-1] - numbers[0] + 1 == len(numbers) else ", with gaps"
    return f"there are {len(numbers)} episodes, {numbers[0]} to {numbers[-1]}{gaps}"
