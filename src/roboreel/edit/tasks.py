"""Which tasks the new dataset has, and how they are numbered. Pure: no file is opened here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from roboreel.distinct import numbered
from roboreel.errors import EditError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from roboreel.edit.recipe import Piece, Recipe
    from roboreel.schema import Manifest


@dataclass(frozen=True)
class TaskPlan:
    """The tasks of the new dataset, and the numbers that rows get."""

    tasks: Mapping[int, str]
    """Texts by number."""
    old: tuple[Mapping[int, str], ...]
    """Texts by number, of each source."""

    @cached_property
    def number_of(self) -> dict[str, int]:
        """Numbers by text; of a text that is listed twice, the first."""
        return {text: number for number, text in reversed(list(self.tasks.items()))}

    def renumbered(self, piece: Piece, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """Return the new task number of each row of a piece.

        Raises:
            EditError: A row has a task that its episode does not list, so that it has no number.
        """
        known = self.old[piece.source]
        found, where = numbered(numbers.astype(np.int64).reshape(-1))
        new = [self._number(piece, number, known) for number in found.tolist()]
        return np.asarray(new, np.int64)[where]

    def _number(self, piece: Piece, number: int, known: Mapping[int, str]) -> int:
        if piece.task is not None:
            return self.number_of[piece.task]
        text = known.get(number)
        if text is None and self.keeps_numbers:
            return number  # what is not in the table stays as it is
        told = None if text is None else piece.new_task(text)
        if told is not None and self.tasks.get(number) == told:
            return number
        if told is None or told not in self.number_of:
            says = f"task {number}" if text is None else f"the task {text!r}"
            raise EditError(
                f"Rows of an episode have {says}, which the metadata of the episode does not list, "
                "so that it has no number in the new dataset. Run `roboreel check` first."
            )
        return self.number_of[told]

    @property
    def keeps_numbers(self) -> bool:
        """Whether every task of the first source still has its number, and there is no other."""
        first = self.old[0]
        return len(self.old) == 1 and all(self.tasks.get(n) == text for n, text in first.items())

    def changes(self, piece: Piece, texts: Sequence[str]) -> bool:
        """Whether rows of a piece get other task numbers, by the tasks that its episode lists."""
        if piece.task is not None or any(piece.new_task(text) != text for text in texts):
            return True
        return piece.source > 0 or not self.keeps_numbers


def plan_tasks(recipe: Recipe, manifests: Sequence[Manifest]) -> TaskPlan:
    """Return the tasks of the new dataset.

    A task that loses its last episode leaves, and those behind it are numbered anew, since LeRobot
    finds tasks by their place. Tasks that no episode had stay.
    """
    had = {text for manifest in manifests for text in manifest.episodes.task_texts}
    used = dict.fromkeys(
        piece.new_task(text)
        for piece in recipe.pieces
        for text in manifests[piece.source].episodes.tasks_of(piece.episode)
    )
    used |= dict.fromkeys(piece.task for piece in recipe.pieces if piece.task is not None)

    def stays(text: str) -> bool:
        return text in used or text not in had

    first, *others = [dict(sorted(manifest.tasks.items())) for manifest in manifests]
    if not all(map(stays, first.values())):
        first = dict(enumerate(filter(stays, first.values())))
    new = [text for tasks in others for text in tasks.values() if stays(text)]
    old = tuple(dict(manifest.tasks) for manifest in manifests)
    return TaskPlan(_extended(first, [*new, *used]), old)


def plan_subtasks(manifests: Sequence[Manifest]) -> TaskPlan:
    """Return the subtasks of the new dataset: those of all sources."""
    first, *others = (dict(manifest.subtasks) for manifest in manifests)
    new = [text for subtasks in others for text in subtasks.values()]
    return TaskPlan(_extended(first, new), (first, *others))


def _extended(tasks: Mapping[int, str], texts: Sequence[str]) -> dict[int, str]:
    """Return tasks by number, with further texts behind them."""
    known = set(tasks.values())
    new = [text for text in dict.fromkeys(texts) if text not in known]
    return {**tasks, **dict(enumerate(new, max(tasks, default=-1) + 1))}
