"""One feature over all rows, in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.parquet.nulls import PartlyNull

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Dense"]


@dataclass(slots=True, eq=False)
class Dense:
    """One feature over all rows, filled by row group as rows are asked for."""

    values: NDArray[Any]
    filled: set[tuple[int, int]]
    """Files and row groups that have been read."""
    missing: NDArray[np.int64]
    """Rows of each episode that have not been read."""
    lock: threading.Lock
    """Guards all but ``values``; never held while reading."""
    num_missing: int
    """Rows of all episodes that have not been read."""
    nulls: NDArray[np.bool_] | None = None
    """Which rows are null, as far as they have been read; None if none is."""

    def put(self, rows: NDArray[np.int64], part: NDArray[Any] | PartlyNull) -> None:
        """Take in the values of some rows."""
        if isinstance(part, PartlyNull):
            with self.lock:
                if self.nulls is None:  # pages without any are never touched
                    self.nulls = np.zeros(len(self.values), bool)
                self.nulls[rows] = part.nulls
            part = part.values
        self.values[rows] = part

    def finish(
        self, group: tuple[int, int], written: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]
    ) -> None:
        """Take note of a row group that was put.

        Args:
            group: Its file and number.
            written: Of each part that was put, the positions of its episodes, and the rows of each.
        """
        with self.lock:
            # Two threads may have filled it with the same values: count it once.
            if group not in self.filled:
                self.filled.add(group)
                for episodes, counts in written:
                    self.missing[episodes] -= counts
                    self.num_missing -= int(counts.sum())
