"""Counts and lists in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

_MOST_NAMED = 5


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return how many there are of something.

    Examples:
        >>> counted(1, "row"), counted(2_000, "row"), counted(2, "index", "indices")
        ('1 row', '2,000 rows', '2 indices')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def enumerated(names: Iterable[object], most: int = _MOST_NAMED) -> str:
    """Return a list in words, cut off if it is long.

    Examples:
        >>> enumerated([1]), enumerated("ab"), enumerated(range(9))
        ('1', 'a and b', '0, 1, 2, 3, 4 and 4 more')
    """
    named = list(names)
    texts = [str(name) for name in (named if len(named) <= most + 1 else named[:most])]
    if len(texts) < len(named):
        texts.append(f"{len(named) - most:,} more")
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def name_episodes(numbers: Sequence[int] | NDArray[np.int64]) -> str:
    """Return some episodes in words.

    Examples:
        >>> name_episodes([3]), name_episodes([3, 5]), name_episodes(range(100))
        ('episode 3', 'episodes 3 and 5', 'episodes 0, 1, 2, 3, 4 and 95 more')
    """
    return f"episode{'' if len(numbers) == 1 else 's'} {enumerated(numbers)}"
