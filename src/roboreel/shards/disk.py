"""Detect whether reads from a map wait for the disk."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import resource

__all__ = ["DiskWatch", "usual_row_ns"]

# Generous upper bounds for a read from memory.
_CALL_NS = 40_000
_ROW_NS = 10_000
_BYTES_PER_NS = 3


def usual_row_ns(size_bytes: int) -> int:
    """Return the longest that copying a row of this size from memory takes."""
    return _ROW_NS + size_bytes // _BYTES_PER_NS


class DiskWatch:
    """Decides from the last read whether the next one should be prefetched.

    From the disk, prefetched pages arrive together instead of one by one, in a fraction of the
    time. From memory, prefetching would double the cost of a row.
    """

    __slots__ = ("_blocks", "waits")

    def __init__(self) -> None:
        self.waits = False
        self._blocks = 0

    def note(self, taken_ns: int, rows_ns: int) -> None:
        """Record how long a read took, and how long it may take from memory."""
        if taken_ns <= _CALL_NS + rows_ns:
            self.waits = False
            return
        # Was it the disk or a busy machine? Asking takes a microsecond, so only slow reads ask.
        blocks = _blocks_read()
        self.waits = blocks != self._blocks
        self._blocks = blocks


def _blocks_read() -> int:
    """Return how many disk blocks this process has read so far; 0 where that is not known."""
    if sys.platform == "win32":
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock
