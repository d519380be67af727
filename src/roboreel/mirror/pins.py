"""Which segments are held: they are not evicted until their reader releases them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roboreel.mirror.locks import RangeLocks

_BEHIND_CLAIMS = 2**40
"""Pins are locks in the same file as claims of blocks, at numbers that no block has."""


class Pin:
    """A hold on segments ``[first, stop)``, taken or not."""

    __slots__ = ("_pins", "first", "is_taken", "stop")

    def __init__(self, pins: Pins, first: int, stop: int) -> None:
        self._pins = pins
        self.first = first
        self.stop = stop
        self.is_taken = False

    def take(self) -> None:
        """Hold the segments. The caller holds the lock of the home, so that nobody evicts now."""
        if not self.is_taken:
            self.is_taken = True
            self._pins.add(self.first, self.stop)

    def release(self) -> None:
        """Let go; this needs no lock."""
        if self.is_taken:
            self.is_taken = False
            self._pins.remove(self.first, self.stop)


class Pins:
    """Holds on the segments of one mirror, by all processes. Those of a process that ends are gone."""

    def __init__(self, locks: RangeLocks) -> None:
        self._locks = locks
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all pins of this process: a forked child inherits none."""
        self._guard = threading.Lock()
        self._counts: Counter[int] = Counter()

    def add(self, first: int, stop: int) -> None:
        """Hold segments once more."""
        with self._guard:
            self._counts.update(range(first, stop))
            # Nobody has them alone: that is tested under the lock of the home.
            self._locks.lock(_BEHIND_CLAIMS + first, stop - first, shared=True)

    def remove(self, first: int, stop: int) -> None:
        """Hold segments once less."""
        with self._guard:
            for segment in range(first, stop):
                self._counts[segment] -= 1
                if not self._counts[segment]:
                    del self._counts[segment]
                    self._locks.unlock(_BEHIND_CLAIMS + segment, 1)

    def has(self, first: int, stop: int) -> bool:
        """Whether anybody holds one of these segments. The caller holds the lock of the home."""
        with self._guard:
            if any(segment in self._counts for segment in range(first, stop)):
                return True
            place, count = _BEHIND_CLAIMS + first, stop - first
            if not self._locks.lock(place, count):
                return True
            self._locks.unlock(place, count)
            return False
