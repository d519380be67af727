"""One mirrored dataset on disk: its table of files, its maps and its bytes."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING

import numpy as np

from roboreel.forking import after_fork
from roboreel.mirror.block_map import BlockMap, State
from roboreel.mirror.boot import boot_id
from roboreel.mirror.claims import Claims
from roboreel.mirror.file_table import FileTable
from roboreel.mirror.geometry import BLOCK_BYTES, SEGMENT_BLOCKS, SEGMENT_BYTES
from roboreel.mirror.holes import SparseFile
from roboreel.mirror.locks import RangeLocks, UseLock
from roboreel.mirror.pins import Pin, Pins

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.mirror.file_table import FileEntry

__all__ = ["MirrorFolder"]


class MirrorFolder:
    """The folder of one mirror. A process opens each but once: see `RangeLocks`.

    Args:
        path: The folder.
        can_punch: Whether parts of its files can be removed.
    """

    def __init__(self, path: Path, *, can_punch: bool = True) -> None:
        self.path = path
        self._can_punch = can_punch
        self.tree = path / "files"
        """The dataset's folder: every file of it is there, and empty."""
        self.table = FileTable(path / "table.jsonl")
        self.blocks = BlockMap(path)
        locks = RangeLocks(path / "claims")
        self.claims = Claims(locks)
        self._pins = Pins(locks)
        self.blocks.grow(self.table.num_segments)
        self.use = UseLock(path / "use")
        """Held by those who have the folder open, so that others do not remove it."""
        after_fork(self, MirrorFolder._after_fork)

    def refresh(self) -> None:
        """Take in files that other processes have added."""
        self.table.refresh()
        self.blocks.grow(self.table.num_segments)

    def open(self, entry: FileEntry) -> SparseFile:
        """Return the bytes of a file; the caller closes it."""
        return SparseFile(self.path / "bytes" / str(entry.number), entry.file.size_bytes)

    def pin(self, entry: FileEntry, blocks: NDArray[np.int64]) -> Pin:
        """Return a hold on the segments of a file's ascending blocks, not taken yet."""
        first, last = (int(blocks[end]) // SEGMENT_BLOCKS for end in (0, -1))
        return Pin(self._pins, entry.segment + first, entry.segment + last + 1)

    def note_used(self, first: int, stop: int) -> None:
        """Note that segments are used now."""
        self.blocks.note_used(first, stop, int(time.time()))

    def doubt_if_restarted(self) -> None:
        """Doubt all blocks if the machine was started again: their bytes may not be on the disk.

        The caller holds the lock of the home.
        """
        seen, now = self.path / "boot", boot_id()
        if not seen.exists() or seen.read_text() != now:
            state = self.blocks.state
            state[state == State.PRESENT] = State.DOUBTED
            seen.write_text(now)

    def forget_abandoned(self) -> None:
        """Free the room of blocks that killed processes were fetching.

        The caller holds the lock of the home.
        """
        wanted = np.flatnonzero(self.blocks.state == State.WANTED)
        abandoned = self.claims.take(wanted)
        self.blocks.state[abandoned] = State.ABSENT
        self.claims.release(abandoned.tolist())

    def settle_doubts(self, entry: FileEntry, blocks: NDArray[np.int64]) -> None:
        """Compare blocks with their checksums; those that differ are absent."""
        base = entry.segment * SEGMENT_BLOCKS
        with_doubt = blocks[self.blocks.state[base + blocks] == State.DOUBTED].tolist()
        if not with_doubt:
            return
        file = self.open(entry)
        for block in with_doubt:
            start = block * BLOCK_BYTES
            data = file.read(start, min(start + BLOCK_BYTES, entry.file.size_bytes))
            sound = zlib.crc32(data) == self.blocks.checksum[base + block]
            if self.blocks.state[base + block] == State.DOUBTED:
                self.blocks.state[base + block] = State.PRESENT if sound else State.ABSENT
        file.close()

    def evict(self, segment: int) -> int:
        """Remove a segment's bytes, or all of its file where no holes can be made.

        The caller holds the lock of the home.

        Returns:
            How many bytes are free now; 0 if a block of them is being fetched, or held by a reader.
        """
        entry = self._entry_of(segment)
        first, stop = segment, segment + 1
        if not self._can_punch:
            first, stop = entry.segment, entry.segment + entry.num_segments
        states = self.blocks.state[first * SEGMENT_BLOCKS : stop * SEGMENT_BLOCKS]
        if (states == State.WANTED).any() or self._pins.has(first, stop):
            return 0
        held = int(np.count_nonzero(states))
        # In this order: a reader that saw the blocks present compares the count afterwards.
        states[:] = State.ABSENT
        self.blocks.evicted[first:stop] += 1
        self.blocks.kept[first:stop] = 0
        file = self.open(entry)
        try:
            if self._can_punch:
                place = segment - entry.segment
                file.punch(place * SEGMENT_BYTES, (place + 1) * SEGMENT_BYTES)
            else:
                file.empty()
        finally:
            file.close()
        return held * BLOCK_BYTES

    def _entry_of(self, segment: int) -> FileEntry:
        low, high = 0, len(self.table) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.table[middle].segment <= segment:
                low = middle
            else:
                high = middle - 1
        return self.table[low]

    def _after_fork(self) -> None:
        self.claims.begin_anew()
        self._pins.begin_anew()
