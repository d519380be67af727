"""Parts of a compressed page that the file holds verbatim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


BLOCK_BYTES = 1 << 16
"""Snappy's block size: a copy never refers to an earlier block."""


@dataclass(frozen=True, slots=True, eq=False)
class LiteralMap:
    """The runs of a page's unpacked bytes that the file holds verbatim.

    Positions are in the unpacked page, offsets in the file.
    """

    run_start: NDArray[np.int64]
    """Position of each run, ascending; runs do not overlap."""
    run_offset: NDArray[np.int64]
    run_length: NDArray[np.int64]
    blocks: NDArray[np.int64] | None = None
    """For Snappy, the offset of each 64 KB block's first tag, and the end of the last block."""

    @classmethod
    def of_runs(cls, runs: Sequence[int], blocks: NDArray[np.int64] | None = None) -> LiteralMap:
        """Return a map from the start, offset and length of every run, in one flat sequence."""
        start, offset, length = np.asarray(runs, np.int64).reshape(-1, 3).T.copy()
        return cls(start, offset, length, blocks)

    def offset_of(self, position: int, length: int) -> int | None:
        """Return the offset of these bytes in the file; None if they are not in a single run."""
        run = int(self.run_start.searchsorted(position, "right")) - 1
        if run < 0:
            return None
        inside = position - self.run_start.item(run)
        if inside + length > self.run_length.item(run):
            return None
        return self.run_offset.item(run) + inside

    def runs_of(
        self, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the first and the last run of each span, and whether runs cover all of it."""
        if len(self.run_start) == 0:
            none = np.zeros(len(starts), np.int64)
            return none, none, none.astype(np.bool_)
        run_stop = self.run_start + self.run_length
        gaps = np.concatenate([[0], np.cumsum(self.run_start[1:] != run_stop[:-1])])
        first = np.maximum(self.run_start.searchsorted(starts, "right") - 1, 0)
        last = np.maximum(self.run_start.searchsorted(stops - 1, "right") - 1, 0)
        covered = (
            (self.run_start[first] <= starts)
            & (stops <= run_stop[last])
            & (gaps[first] == gaps[last])
        )
        return first, last, covered
