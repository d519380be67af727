"""Episode numbers as they are typed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from roboreel.dataset import Dataset

__all__ = ["parse_numbers", "select_episodes"]

_MOST_NUMBERS = 10_000_000


def select_episodes(dataset: Dataset, spelled: str | None) -> Dataset:
    """Return the view of the episodes that were asked for; all if none were named.

    Raises:
        EpisodeNotFoundError: A number that no episode has.
    """
    return dataset if spelled is None else dataset.select(parse_numbers(spelled))


def parse_numbers(spelled: str) -> list[int]:
    """Return the numbers of a list like ``0,4,7-9``, in the order given.

    Examples:
        >>> parse_numbers("0,4,7-9")
        [0, 4, 7, 8, 9]

    Raises:
        typer.BadParameter: It is no such list.
    """
    numbers: list[int] = []
    for part in spelled.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise typer.BadParameter(f"{spelled!r} is no list of episodes: write 0,4,7-9.")
        last = int(match[2] or match[1])
        if last - int(match[1]) > _MOST_NUMBERS:
            raise typer.BadParameter(f"{part.strip()!r} names more episodes than there can be.")
        numbers += range(int(match[1]), last + 1)
    return numbers
