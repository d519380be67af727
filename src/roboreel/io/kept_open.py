"""The things used last, kept open: files, columns, stores."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from roboreel.forking import after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")

_MOST_IN_A_PROCESS = 512
_tokens = count()


class _Process:
    """What all `KeptOpen` of a process hold, the thing used last at the end."""

    def __init__(self) -> None:
        # Reentrant: a collected owner is forgotten wherever the collector happens to run.
        self.lock = threading.RLock()
        self.used: OrderedDict[tuple[int, Any], weakref.ref[KeptOpen[Any, Any]]] = OrderedDict()
        after_fork(self, _Process._after_fork)

    def forget(self, token: int) -> None:
        """Drop the entries of an owner that is gone."""
        with self.lock:
            for key in [key for key in self.used if key[0] == token]:
                self.used.pop(key, None)

    def shrink(self) -> None:
        """Close what was not used for longest, until the process may open other files."""
        limit = _process_limit()
        while len(self.used) > limit:
            (_, key), owner = self.used.popitem(last=False)
            kept = owner()
            if kept is not None:
                kept.discard(key)

    def _after_fork(self) -> None:
        self.lock = threading.RLock()  # Another thread of the parent may have held it.


def _process_limit() -> int:
    """Return how many things all of a process keep open: a quarter of the files it may open."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, where a process may open thousands of files.
        return _MOST_IN_A_PROCESS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_IN_A_PROCESS if soft < 0 else min(_MOST_IN_A_PROCESS, max(8, soft // 4))


_process = _Process()


class KeptOpen(Generic[K, V]):
    """Keeps the things used last open, up to a limit. Safe to use from several threads.

    All `KeptOpen` of a process together keep no more than 512 things open, and no more than a
    quarter of the files that the process may open.

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
        self._open: OrderedDict[K, V] = OrderedDict()
        self._token = next(_tokens)
        weakref.finalize(self, _process.forget, self._token).atexit = False
        after_fork(self, KeptOpen._after_fork)

    def get(self, key: K, open_it: Callable[[], V]) -> V:
        """Return what is open under a key; ``open_it()`` if nothing is.

        The lock is not held while opening, so two threads may open the same thing.
        """
        with _process.lock:
            held = self._open.get(key)
            if held is not None:
                self._open.move_to_end(key)
                _process.used.move_to_end((self._token, key))
                return held
        opened = open_it()
        with _process.lock:
            self._open[key] = opened
            _process.used[self._token, key] = weakref.ref(self)
            while len(self._open) > self._limit:
                oldest, _ = self._open.popitem(last=False)
                _process.used.pop((self._token, oldest), None)
            _process.shrink()
        return opened

    def discard(self, key: K) -> None:
        """Stop keeping what is open under a key, if anything is."""
        with _process.lock:
            self._open.pop(key, None)
            _process.used.pop((self._token, key), None)

    def items(self) -> list[tuple[K, V]]:
        """Return what is open now, the thing used last at the end."""
        with _process.lock:
            return list(self._open.items())

    def _after_fork(self) -> None:
        if not self._survives_fork:
            self._open = OrderedDict()
            _process.forget(self._token)
