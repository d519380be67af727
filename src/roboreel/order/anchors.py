"""Which row each sample is anchored at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import RowNotFoundError
from roboreel.numbers import check_at_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Anchors"]


@dataclass(frozen=True, slots=True, eq=False)
class Anchors:
    """The rows that samples are built around: those of some episodes, without their last frames.

    Samples are numbered from 0, episode after episode in the order given. Nothing of the length of
    the dataset is held, only arrays of the number of episodes. Over a view of some episodes, give
    the view's own numbering in place of rows.

    Examples:
        >>> anchors = Anchors(np.array([0, 100]), np.array([4, 3]), drop_n_last_frames=1)
        >>> anchors.rows(np.arange(anchors.num_samples))
        array([  0,   1,   2, 100, 101])
    """

    start: NDArray[np.int64]
    """First row of each episode, ``(E,)``."""
    length: NDArray[np.int64]
    """Frames of each episode, ``(E,)``."""
    drop_n_last_frames: int = 0
    """Frames at the end of each episode that anchor no sample."""
    bounds: NDArray[np.int64] = field(init=False, repr=False)
    """The samples of episode ``i`` are ``[bounds[i], bounds[i + 1])``, ``(E + 1,)``."""

    def __post_init__(self) -> None:
        check_at_least(0, drop_n_last_frames=self.drop_n_last_frames)
        kept = np.maximum(np.asarray(self.length, np.int64) - self.drop_n_last_frames, 0)
        object.__setattr__(self, "bounds", np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)]))

    @property
    def num_samples(self) -> int:
        """Samples of all episodes together."""
        return int(self.bounds[-1])

    @property
    def samples_per_episode(self) -> NDArray[np.int64]:
        """How many samples each episode gives, ``(E,)``; none where all its frames are dropped."""
        return np.diff(self.bounds)

    def episodes(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episode of each sample, as its position in ``start``, ``(N,)``.

        Raises:
            RowNotFoundError: A sample that does not exist.
        """
        samples = np.asarray(samples, np.int64)
        outside = (samples < 0) | (samples >= self.num_samples)
        if outside.any():
            raise RowNotFoundError(
                f"Sample {int(samples[outside][0])} does not exist: "
                f"there are {self.num_samples} samples, counted from 0."
            )
        return np.searchsorted(self.bounds, samples, side="right") - 1

    def rows(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row that each sample is anchored at, ``(N,)``.

        Raises:
            RowNotFoundError: A sample that does not exist.
        """
        episodes = self.episodes(samples)
        return np.asarray(self.start[episodes] + samples - self.bounds[episodes], np.int64)
