"""The things used last, kept open: files, columns, stores."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from roboreel.forking import after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["KeptOpen"]

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class KeptOpen(Generic[K, V]):
    """Keeps the things used last open, up to a limit. Safe to use from several threads.

    Nothing is closed when it is dropped, since another thread may be using it: the last reference
    closes it.

    Args:
        limit: How many are kept.
        survives_fork: Whether a forked child may use what its parent opened. Otherwise it starts
            with nothing open.

    Examples:
        >>> squares = KeptOpen(limit=2)
        >>> [squares.get(n, lambda: n * n) for n in (1, 2, 1, 3)]
        [1, 4, 1, 9]
        >>> squares.items()
        [(1, 1), (3, 9)]
    """

    def __init__(self, *, limit: int, survives_fork: bool = False) -> None:
        self._limit = limit
        self._survives_fork = survives_fork
        self._lock = threading.Lock()
        self._open: OrderedDict[K, V] = OrderedDict()
        after_fork(self, KeptOpen._after_fork)

    def get(self, key: K, open_it: Callable[[], V]) -> V:
        """Return what is open under a key; ``open_it()`` if nothing is.

        The lock is not held while opening, so two threads may open the same thing.
        """
        with self._lock:
            held = self._open.get(key)
            if held is not None:
                self._open.move_to_end(key)
                return held
        opened = open_it()
        with self._lock:
            self._open[key] = opened
            while len(self._open) > self._limit:
                self._open.popitem(last=False)
        return opened

    def items(self) -> list[tuple[K, V]]:
        """Return what is open now, the thing used last at the end."""
        with self._lock:
            return list(self._open.items())

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # Another thread of the parent may have held it.
        if not self._survives_fork:
            self._open = OrderedDict()
