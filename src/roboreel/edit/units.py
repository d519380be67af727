"""Episodes that go into one new file, and what old files hold. Arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Unit:
    """Episodes that go into one new file, and the old files that they lie in."""

    pieces: tuple[int, ...]
    sources: tuple[tuple[int, str], ...]
    place: int | None = None
    """Which file of the first source it is, if it is one of them alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What each file of a dataset holds, counted once for all of them."""

    file: NDArray[np.int64]
    """The file of each episode; below 0 if it has none."""
    episodes: NDArray[np.int64]
    """Episodes in each file that have frames, ``(F,)``."""
    frames: NDArray[np.int64]

    @classmethod
    def of(cls, file: NDArray[np.int64], length: NDArray[np.int64]) -> Held:
        """Count what files hold.

        Args:
            file: The file of each episode.
            length: Its frames.

        Examples:
            >>> Held.of(np.array([0, 0, 1]), np.array([5, 0, 7])).episodes
            array([1, 1])
        """
        known = file >= 0
        count = int(file.max(initial=-1)) + 1
        filled = np.bincount(file[known & (length > 0)], minlength=count)
        frames = np.zeros(count, np.int64)
        np.add.at(frames, file[known], length[known])
        return cls(file, filled.astype(np.int64), frames)

    def episodes_with(self, episode: int) -> int:
        """Return how many episodes with frames share the file of an episode."""
        file = int(self.file[episode])
        return int(self.episodes[file]) if file >= 0 else 0

    def frames_with(self, episode: int) -> int:
        """Return how many frames are in the file of an episode."""
        file = int(self.file[episode])
        return int(self.frames[file]) if file >= 0 else 0


def merged_units(units: Sequence[Unit]) -> Iterator[Unit]:
    """Yield one unit of all the episodes of some, if there are any."""
    if len(units) == 1:
        yield units[0]
    elif units:
        pieces = tuple(number for unit in units for number in unit.pieces)
        yield Unit(pieces, tuple(path for unit in units for path in unit.sources))
