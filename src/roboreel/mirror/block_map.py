"""Which blocks are there: small files that all processes of a machine map."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.mirror.geometry import SEGMENT_BLOCKS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["BlockMap", "State"]


class State(IntEnum):
    """What is known of a block."""

    ABSENT = 0
    PRESENT = 1
    DOUBTED = 2
    """Written before the machine was started again: its checksum decides."""
    WANTED = 3
    """Room is reserved for it, and it is being fetched."""


class BlockMap:
    """The maps of one mirror. A byte per block, so that processes change different blocks at once.

    The order of changes makes reading safe without a lock. A block becomes ``PRESENT`` after its
    bytes were written. A segment's count of evictions goes up before its bytes are removed, so a
    reader that finds the same count before and after it has copied bytes has copied the right ones.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.num_segments = 0
        self.state: NDArray[np.uint8] = np.empty(0, np.uint8)
        """`State` of each block."""
        self.checksum: NDArray[np.uint32] = np.empty(0, np.uint32)
        """CRC-32 of each block that is there."""
        self.evicted: NDArray[np.uint32] = np.empty(0, np.uint32)
        """How often each segment was evicted."""
        self.used_s: NDArray[np.uint32] = np.empty(0, np.uint32)
        """When each segment was last used, in seconds since the epoch."""
        self.kept: NDArray[np.uint8] = np.empty(0, np.uint8)
        """Whether each segment holds an index, which is evicted last."""

    def grow(self, num_segments: int) -> None:
        """Map so many segments."""
        if num_segments <= self.num_segments:
            return
        blocks = num_segments * SEGMENT_BLOCKS
        self.state = self._map("state", np.uint8, blocks)
        self.checksum = self._map("checksum", np.uint32, blocks)
        self.evicted = self._map("evicted", np.uint32, num_segments)
        self.used_s = self._map("used", np.uint32, num_segments)
        self.kept = self._map("kept", np.uint8, num_segments)
        self.num_segments = num_segments

    def count_held(self) -> int:
        """Return how many blocks take room."""
        return int(np.count_nonzero(self.state))

    def held_by_segment(self) -> NDArray[np.int64]:
        """Return how many blocks of each segment take room."""
        held: NDArray[np.int64] = np.count_nonzero(self.state.reshape(-1, SEGMENT_BLOCKS), axis=1)
        return held

    def _map(self, name: str, dtype: Any, count: int) -> NDArray[Any]:  # noqa: ANN401
        path, size = self._folder / name, count * np.dtype(dtype).itemsize
        with path.open("ab") as file:
            if file.tell() < size:
                file.truncate(size)
        return np.asarray(np.memmap(path, dtype, mode="r+", shape=(count,)))
