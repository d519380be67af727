"""The task and the subtask of any rows, in words."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from roboreel.format.counters import TASK_NUMBER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roboreel.frames.columns import Columns
    from roboreel.schema import Manifest

__all__ = ["TaskTexts"]

_NULL = -1


class TaskTexts:
    """Turns the numbers of tasks into texts."""

    def __init__(self, manifest: Manifest, columns: Columns) -> None:
        self._manifest = manifest
        self._columns = columns
        self._undefined: set[int] = set()
        """Numbers that no task has, and that were warned of."""

    def tasks(
        self,
        rows: NDArray[np.int64],
        episodes: NDArray[np.int64],
        numbers: NDArray[np.int64] | None = None,
    ) -> list[str]:
        """Return the task of each row; an empty text if its number is null or not defined.

        Of a number that is not defined, a `RuntimeWarning` names the first episode.
        Where there are no numbers, or no table that defines them, it is the episode's.

        Args:
            rows: Rows of the dataset, ``(N,)``.
            episodes: The position of each row's episode, ``(N,)``.
            numbers: The number of each row's task, ``(N,)``, if known; else they are read.
        """
        if numbers is None:
            numbers = self._columns.gather_tasks(TASK_NUMBER, rows)
        texts = self._manifest.tasks
        return [
            texts[number] if number in texts else self._without_text(number, row, episode)
            for number, row, episode in zip(
                numbers.tolist(), rows.tolist(), episodes.tolist(), strict=True
            )
        ]

    def subtasks(
        self, rows: NDArray[np.int64], numbers: NDArray[np.int64] | None = None
    ) -> list[str]:
        """Return the subtask of each row; an empty text if its number is null or not defined."""
        if numbers is None:
            numbers = self._columns.gather_tasks("subtask_index", rows)
        return [self._manifest.subtasks.get(number, "") for number in numbers.tolist()]

    def _without_text(self, number: int, row: int, episode: int) -> str:
        episodes = self._manifest.episodes
        if not (self._manifest.tasks and self._columns.is_stored(TASK_NUMBER, row)):
            return episodes.first_task(episode)
        if number != _NULL and number not in self._undefined:
            self._undefined.add(number)
            warnings.warn(
                f"Episode {episodes.number[episode]} has task_index {number}, which no task has: "
                "the task is an empty text there. Run `roboreel check --tier numbers`: "
                f"{str(self._manifest.root)!r}.",
                RuntimeWarning,
                stacklevel=2,
            )
        return ""
