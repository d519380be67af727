"""Whether reads from a map are waiting for the disk."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import resource

__all__ = ["DiskWatch", "usual_row_ns"]

# What a read takes, generously, if it need not wait for the disk.
_CALL_NS = 40_000
_ROW_NS = 10_000
_BYTES_PER_NS = 3


def usual_row_ns(size_bytes: int) -> int:
    """Return how long it takes to copy a row of so many bytes from memory, at most."""
    return _ROW_NS + size_bytes // _BYTES_PER_NS


class DiskWatch:
    """Knows from the last read whether the next one should be announced to the kernel.

    An announced read gets its pages together rather than one by one, in a fraction of the time;
    but while all is in memory, announcing doubles the cost of a row.
    """

    __slots__ = ("_blocks", "waits")

    def __init__(self) -> None:
        self.waits = False
        self._blocks = 0

    def note(self, taken_ns: int, rows_ns: int) -> None:
        """Take note of how long a read took, and how long its rows take from memory."""
        if taken_ns <= _CALL_NS + rows_ns:
            self.waits = False
            return
        # Asked only now, since it takes a microsecond: was it the disk, or a busy machine?
        blocks = _blocks_read()
        self.waits = blocks != self._blocks
        self._blocks = blocks


def _blocks_read() -> int:
    """Return how many blocks of disks this process has asked for so far."""
    if sys.platform == "win32":
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock
