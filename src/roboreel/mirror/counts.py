"""How much was fetched, and how much was already there."""

from __future__ import annotations

import threading
from dataclasses import dataclass

_COUNTED = ("requests", "fetched_bytes", "read_bytes", "hits", "misses")


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a process has fetched for one dataset, and what it found in the mirror."""

    requests: int
    """Requests for bytes of files."""
    fetched_bytes: int
    read_bytes: int
    """Bytes that were read, fetched before or not."""
    hits: int
    """Spans that were there when they were asked for."""
    misses: int
    """Spans that had to be fetched first."""
    held_bytes: int = 0
    """Bytes that all mirrors of the folder hold."""
    limit_bytes: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of the spans that were there."""
        return self.hits / max(1, self.hits + self.misses)

    def __str__(self) -> str:
        return (
            f"{self.fetched_bytes / 1e6:,.1f} MB fetched by {self.requests:,} requests, "
            f"{self.read_bytes / 1e6:,.1f} MB read, {self.hit_rate:.1%} of spans were already there"
        )


class Counts:
    """Counters that several threads add to, by the names of `Fetched`."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Count from zero."""
        self._guard = threading.Lock()
        self._counts = dict.fromkeys(_COUNTED, 0)

    def add(self, **counts: int) -> None:
        """Add to some of the counters."""
        with self._guard:
            for name, count in counts.items():
                self._counts[name] += count

    def snapshot(self, held_bytes: int, limit_bytes: int) -> Fetched:
        """Return the counts as of now."""
        return Fetched(**self._counts, held_bytes=held_bytes, limit_bytes=limit_bytes)
