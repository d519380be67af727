"""Which positions of an epoch each rank takes, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.numbers import check_at_least, one_number

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Split:
    """How an epoch is cut into batches, and which part of each batch one rank takes.

    At every step all ranks together take the next positions of the epoch, each a contiguous run of
    them. So the progress in an epoch is one number, ``consumed``: the positions that all ranks
    together have taken. Nothing else is needed to resume, even with another batch or world size.

    All ranks have the same number of batches. If the positions do not divide evenly:

    * ``drop_last=True``: every batch is full; fewer than ``batch_size * world_size`` positions are
      left out at the end of the epoch.
    * ``drop_last=False``: every position is taken exactly once. The last two steps may have smaller
      batches, whose sizes differ by at most one between ranks. A batch is empty only if fewer
      positions are left than there are ranks: if a whole epoch, or the rest of a resumed one, is
      that short, or if the batch size is 1.

    Examples:
        >>> split = Split(10, batch_size=2, rank=1, world_size=2)
        >>> [split.positions(batch).tolist() for batch in range(split.num_batches())]
        [[2, 3], [6, 7], [9]]
    """

    num_samples: int
    """Positions of an epoch."""
    batch_size: int
    """Samples of one batch of one rank."""
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False

    def __post_init__(self) -> None:
        check_at_least(0, num_samples=self.num_samples)
        check_at_least(1, batch_size=self.batch_size, world_size=self.world_size)
        # NumPy's integers have edges, and checkpoints hold what is counted by these.
        for name in ("num_samples", "batch_size", "rank", "world_size"):
            object.__setattr__(self, name, one_number(getattr(self, name), name))
        if not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"Rank {self.rank} does not exist: there are {self.world_size} ranks, "
                f"0 to {self.world_size - 1}."
            )

    def of(self, rank: int, world_size: int) -> Split:
        """Return the same cut for another rank."""
        return replace(self, rank=rank, world_size=world_size)

    def num_batches(self, consumed: int = 0) -> int:
        """Return how many batches each rank has left in an epoch."""
        left = self._left(consumed)
        full = self._full_steps(left)
        tail = left - full * self._step
        if self.drop_last or tail == 0:
            return full
        return full + (1 if tail <= self._step else 2)

    def span(self, batch: int, consumed: int = 0) -> tuple[int, int]:
        """Return ``[start, stop)``, the positions that all ranks together take in one step.

        Args:
            batch: Counted from ``consumed`` on.
            consumed: Positions of this epoch that were taken before.

        Raises:
            IndexError: The epoch ends before that batch.
        """
        num_batches = self.num_batches(consumed)
        if not 0 <= batch < num_batches:
            raise IndexError(
                f"Batch {batch} does not exist: {num_batches} are left in an epoch of "
                f"{self.num_samples} samples of which {consumed} are consumed."
            )
        left = self._left(consumed)
        full = self._full_steps(left)
        start = consumed + min(batch, full) * self._step
        if batch < full:
            return start, start + self._step
        tail = left - full * self._step
        # If the tail has two steps, one position per rank is left for the second.
        first = tail if tail <= self._step else max(tail - self.world_size, self.world_size)
        return (start, start + first) if batch == full else (start + first, start + tail)

    def positions(self, batch: int, consumed: int = 0) -> NDArray[np.int64]:
        """Return the positions of this rank's share of one step, ``(B,)``, in ascending order."""
        start, stop = self.span(batch, consumed)
        taken = stop - start
        return np.arange(
            start + self.rank * taken // self.world_size,
            start + (self.rank + 1) * taken // self.world_size,
            dtype=np.int64,
        )

    @property
    def _step(self) -> int:
        return self.batch_size * self.world_size

    def _left(self, consumed: int) -> int:
        if not 0 <= consumed <= self.num_samples:
            raise ValueError(
                f"{consumed} samples cannot be consumed of an epoch of {self.num_samples}."
            )
        return self.num_samples - consumed

    def _full_steps(self, left: int) -> int:
        """Return how many steps are full before the tail of one or two smaller ones."""
        if self.drop_last or left % self._step == 0:
            return left // self._step
        # Keep back at least one position per rank.
        return max(left - self.world_size, 0) // self._step
