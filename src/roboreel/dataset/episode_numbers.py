"""Episode numbers as people type them."""

from __future__ import annotations

import re

# A typing mistake must not fill the memory: no dataset has this many episodes.
_MOST_NUMBERS = 10_000_000


def parse_episodes(text: str) -> list[int]:
    """Return the episode numbers of a list like ``0,4,7-9``, in the order given.

    Examples:
        >>> parse_episodes("0,4,7-9")
        [0, 4, 7, 8, 9]

    Raises:
        ValueError: The text is not a list of episode numbers.
    """
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{text!r} is not a list of episodes: write numbers like 0,4,7-9.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first > _MOST_NUMBERS:
            raise ValueError(f"{part.strip()!r} names more episodes than any dataset has.")
        numbers += range(first, last + 1)
    return numbers
