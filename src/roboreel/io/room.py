"""Memory that threads have in hand for a moment: they wait until there is room for it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Nobody holds memory for so long. Rather than wait for ever, a thread goes on without room.
_PATIENCE_S = 10.0


class Room:
    """Lets threads do brief work side by side as far as its memory fits in a limit.

    A thread that is alone never waits, however much it needs; neither does one that already holds
    room.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_hand = 0
        self._waiting: list[threading.Lock] = []
        self._own = threading.local()

    @contextmanager
    def take(self, size_bytes: int, limit_bytes: int) -> Iterator[None]:
        """Have memory in hand while the block runs, after waiting for room.

        Args:
            size_bytes: The memory that the block takes.
            limit_bytes: The most that all threads have in hand, unless there is only one.
        """
        depth = getattr(self._own, "depth", 0)
        self._enter(size_bytes, limit_bytes, waits=not depth)
        self._own.depth = depth + 1
        try:
            yield
        finally:
            self._own.depth = depth
            with self._lock:
                self._in_hand -= size_bytes
                waiting, self._waiting = self._waiting, []
            for gate in waiting:
                gate.release()

    def _enter(self, size_bytes: int, limit_bytes: int, *, waits: bool) -> None:
        while True:
            with self._lock:
                fits = not self._in_hand or self._in_hand + size_bytes <= limit_bytes
                if fits or not waits:
                    self._in_hand += size_bytes
                    return
                gate = threading.Lock()
                gate.acquire()
                self._waiting.append(gate)
            waits = gate.acquire(timeout=_PATIENCE_S)
