"""Which samples of a dataset or a mixture a training run is built around."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import RowNotFoundError
from roboreel.numbers import check_at_least

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Anchors:
    """The samples of a run: those of a dataset, a view or a mixture, its source, less the last ones.

    A run numbers its samples from 0, episode after episode. It may leave out the last frames of
    each episode, so its numbers are not those of the source. Only arrays of the number of episodes
    are held, none of the length of the dataset.

    Examples:
        >>> anchors = Anchors(np.array([0, 4]), np.array([4, 3]), drop_n_last_frames=1)
        >>> anchors.source_samples(np.arange(anchors.num_samples))
        array([0, 1, 2, 4, 5])
    """

    start: NDArray[np.int64]
    """First sample of each episode in the source, ``(E,)``."""
    length: NDArray[np.int64]
    """Frames of each episode, ``(E,)``."""
    drop_n_last_frames: int = 0
    """Frames at the end of each episode that anchor no sample."""
    bounds: NDArray[np.int64] = field(init=False, repr=False)
    """The run's samples of episode ``i`` are ``[bounds[i], bounds[i + 1])``, ``(E + 1,)``."""

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
        """How many samples each episode gives, ``(E,)``; 0 where all its frames are dropped."""
        return np.diff(self.bounds)

    def episodes(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episode of each sample, as its position in ``start``, ``(N,)``.

        Raises:
            RowNotFoundError: A sample does not exist.
        """
        samples = np.asarray(samples, np.int64)
        outside = (samples < 0) | (samples >= self.num_samples)
        if outside.any():
            raise RowNotFoundError(
                f"Sample {int(samples[outside][0])} does not exist: "
                f"there are {self.num_samples} samples, counted from 0."
            )
        return np.searchsorted(self.bounds, samples, side="right") - 1

    def source_samples(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number that each sample has in the source, ``(N,)``.

        Raises:
            RowNotFoundError: A sample does not exist.
        """
        episodes = self.episodes(samples)
        return np.asarray(self.start[episodes] + samples - self.bounds[episodes], np.int64)
