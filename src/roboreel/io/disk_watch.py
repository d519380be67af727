"""Detect whether reads from a map wait for the disk."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import resource

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

    Args:
        waits: Whether the first read should be prefetched.
    """

    __slots__ = ("_fetched", "waits")

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        """Whether the last read waited for the disk."""
        self._fetched = 0

    def note(self, taken_ns: int, rows_ns: int) -> None:
        """Record how long a read took, and how long it may take from memory."""
        if taken_ns <= _CALL_NS + rows_ns:
            self.waits = False
            return
        # Was it the disk or a busy machine? Asking takes a microsecond, so only slow reads ask.
        fetched = _fetched()
        self.waits = fetched != self._fetched
        self._fetched = fetched


def _fetched() -> int:
    """Return a number that grows with what this process fetches from disks; 0 if not known.

    Prefetched pages count as blocks, others as faults; some network file systems count faults
    alone.
    """
    if sys.platform == "win32":
        return 0
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_inblock + usage.ru_majflt
