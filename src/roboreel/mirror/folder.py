"""One mirrored dataset on disk: its table of files, its maps and its bytes."""

from __future__ import annotations

import threading
import time
import uuid
import zlib
from bisect import bisect_right
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roboreel.forking import after_fork
from roboreel.mirror.block_map import BlockMap, State
from roboreel.mirror.file_table import FileTable
from roboreel.mirror.geometry import BLOCK_BYTES, SEGMENT_BLOCKS, SEGMENT_BYTES, runs_of
from roboreel.mirror.holes import SparseFile
from roboreel.mirror.locks import RangeLocks, UseLock
from roboreel.mirror.pins import Pin, Pins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from roboreel.mirror.file_table import FileEntry


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
        return SparseFile(self.path / "bytes" / str(entry.number))

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
        numbers = range(1, len(self.table))
        return self.table[bisect_right(numbers, segment, key=lambda n: self.table[n].segment)]

    def _after_fork(self) -> None:
        self.claims.begin_anew()
        self._pins.begin_anew()


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return what differs after every start of the machine; where none is known, of the process."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return uuid.uuid4().hex


# Who fetches which block: one process of a machine, and one thread of it.


class Claims:
    """Claims of blocks by their numbers. Those of a process that ends are free at once.

    Locks belong to the process, so threads are told apart by a set.
    """

    def __init__(self, locks: RangeLocks) -> None:
        self._locks = locks
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all claims of this process: a forked child inherits none."""
        self._guard = threading.Lock()
        self._mine: set[int] = set()

    def take(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Claim blocks; return those that nobody else has claimed."""
        with self._guard:
            free = np.array([b for b in blocks.tolist() if b not in self._mine], np.int64)
            taken: list[int] = []
            for run in runs_of(free):
                if self._locks.lock(int(run[0]), len(run)):
                    taken += run.tolist()
                elif len(run) > 1:  # Another process has some of them.
                    taken += [block for block in run.tolist() if self._locks.lock(block, 1)]
            self._mine.update(taken)
        return np.array(taken, np.int64)

    def release(self, blocks: Iterable[int]) -> None:
        """Give up claims."""
        with self._guard:
            mine = sorted(self._mine.intersection(blocks))
            self._mine.difference_update(mine)
            for run in runs_of(np.array(mine, np.int64)):
                self._locks.unlock(int(run[0]), len(run))
