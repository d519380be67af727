"""Which blocks are there: small files that all processes of a machine map."""

from __future__ import annotations

import mmap
import os
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.mirror.geometry import SEGMENT_BLOCKS
from roboreel.mirror.locks import lengthen, open_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


class State(IntEnum):
    """What is known of a block."""

    ABSENT = 0
    PRESENT = 1
    DOUBTED = 2
    """Written before the machine was started again: its checksum decides."""
    WANTED = 3
    """Room is reserved for it, and it is being fetched."""


_PRESENT = bytes([State.PRESENT])


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
        # The same maps as plain bytes: a read compares a few of them, and NumPy takes 1 µs each.
        self._states = self._evictions = self._uses = mmap.mmap(-1, 1)

    def grow(self, num_segments: int) -> None:
        """Extend the map to this many segments."""
        if num_segments <= self.num_segments:
            return
        blocks = num_segments * SEGMENT_BLOCKS
        self._states, self.state = self._map("state", np.uint8, blocks)
        _, self.checksum = self._map("checksum", np.uint32, blocks)
        self._evictions, self.evicted = self._map("evicted", np.uint32, num_segments)
        self._uses, self.used_s = self._map("used", np.uint32, num_segments)
        _, self.kept = self._map("kept", np.uint8, num_segments)
        self.num_segments = num_segments

    def are_present(self, first: int, stop: int) -> bool:
        """Whether all of some blocks are there."""
        return self._states[first:stop] == _PRESENT * (stop - first)

    def evictions(self, first: int, stop: int) -> bytes:
        """Return how often segments were evicted, in a form that can be compared."""
        return self._evictions[4 * first : 4 * stop]

    def note_used(self, first: int, stop: int, now_s: int) -> None:
        """Note that segments are used now; most were a moment ago."""
        now = now_s.to_bytes(4, "little") * (stop - first)
        if self._uses[4 * first : 4 * stop] != now:
            self._uses[4 * first : 4 * stop] = now

    def count_held(self) -> int:
        """Return how many blocks take room."""
        return int(np.count_nonzero(self.state))

    def held_by_segment(self) -> NDArray[np.int64]:
        """Return how many blocks of each segment take room."""
        held: NDArray[np.int64] = np.count_nonzero(self.state.reshape(-1, SEGMENT_BLOCKS), axis=1)
        return held

    def _map(self, name: str, dtype: Any, count: int) -> tuple[mmap.mmap, NDArray[Any]]:  # noqa: ANN401
        size = count * np.dtype(dtype).itemsize
        handle = open_file(self._folder / name)
        try:
            lengthen(handle, size)
            mapped = mmap.mmap(handle, size)
        finally:
            os.close(handle)
        return mapped, np.frombuffer(mapped, np.dtype(dtype).newbyteorder("<"))
