"""The byte budget that all caches of a process share."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from roboreel.forking import after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

DEFAULT_LIMIT_BYTES = 512 * 1024**2
# The most that threads have in hand for brief work, as a share of the limit.
_IN_HAND_SHARE = 4

# Nobody holds memory for so long. Rather than wait for ever, a thread goes on without room.
_PATIENCE_S = 10.0

T = TypeVar("T")

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {unit + "I": 1024**power for power, unit in enumerate("KMGT", start=1)}


def parse_size(size: int | str) -> int:
    """Return a size in bytes, given as a number or with a unit.

    Examples:
        >>> parse_size("256MB"), parse_size("1.5 GiB"), parse_size(4096)
        (256000000, 1610612736, 4096)
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", str(size), re.IGNORECASE)
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError(f"{size!r} is not a size. Give a number of bytes, or '512MB', '2GiB'.")
    return int(float(match[1]) * _UNITS[match[2].upper()])


@dataclass(slots=True)
class _Entry:
    value: Any
    size_bytes: int
    owner: str
    survives_fork: bool


class Room:
    """Lets threads do brief work side by side as far as its memory fits in a limit.

    A thread that is alone never waits, however much it needs; neither does one that already holds
    room.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._in_hand = 0
        self._own = threading.local()

    @contextmanager
    def take(self, size_bytes: int, limit_bytes: int) -> Iterator[None]:
        """Have memory in hand while the block runs, after waiting for room.

        Args:
            size_bytes: The memory that the block takes.
            limit_bytes: The most that all threads have in hand, unless there is only one.
        """
        depth = getattr(self._own, "depth", 0)

        def fits() -> bool:
            return bool(depth) or not self._in_hand or self._in_hand + size_bytes <= limit_bytes

        with self._changed:
            self._changed.wait_for(fits, timeout=_PATIENCE_S)
            self._in_hand += size_bytes
        self._own.depth = depth + 1
        try:
            yield
        finally:
            self._own.depth = depth
            with self._changed:
                self._in_hand -= size_bytes
                self._changed.notify_all()


class Budget:
    """A cache with a limit in bytes, which evicts the least recently used values.

    Eviction drops the cache's own reference: a value that is still in use stays alive. Values
    larger than the limit are not held. Safe to use from several threads. After a fork, the child
    keeps plain memory and drops values that do not survive a fork.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._held_bytes = self._num_forks = 0
        self._held_by: defaultdict[str, int] = defaultdict(int)
        self._lock = threading.RLock()
        self._room = Room()
        self._shared: dict[Any, Any] = {}
        after_fork(self, Budget._after_fork)

    def share(self, make: Callable[[Budget], T]) -> T:
        """Return what ``make(budget)`` returned when it was first asked for here.

        So all who hold values of one kind under a budget know of each other's.
        """
        if make not in self._shared:
            self._shared.setdefault(make, make(self))
        shared: T = self._shared[make]
        return shared

    @property
    def limit_bytes(self) -> int:
        """The most that may be held. Lowering it evicts at once."""
        return self._limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit_bytes: int) -> None:
        with self._lock:
            self._limit_bytes = limit_bytes
            self._shrink()

    @property
    def held_bytes(self) -> int:
        """Bytes held now, and in use by those who counted them with `lent`."""
        return self._held_bytes

    def held_by_owner(self) -> dict[str, int]:
        """Return the bytes held now, by owner."""
        with self._lock:
            return {owner: held for owner, held in self._held_by.items() if held}

    def held_by(self, owner: str) -> int:
        """Return the bytes that one owner holds now."""
        return self._held_by.get(owner, 0)

    def get(self, key: Hashable) -> Any | None:  # noqa: ANN401  # the value of any cache
        """Return a value and mark it as used; None if it is not held."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry.value

    def put(
        self,
        key: Hashable,
        value: object,
        size_bytes: int,
        *,
        owner: str,
        survives_fork: bool = True,
    ) -> None:
        """Hold a value under a key, replacing the value held there.

        Args:
            key: Starts with something unique to the caller, so that no two caches collide.
            value: The value.
            size_bytes: The memory that it takes.
            owner: What the value is to a user: ``"row groups"``, ``"decoders"``, …
            survives_fork: False if a forked child must not use it.
        """
        with self._lock:
            if key in self._entries:
                self.drop(key)
            if size_bytes > self._limit_bytes:
                return
            self._entries[key] = _Entry(value, size_bytes, owner, survives_fork)
            self._count(owner, size_bytes)
            self._shrink()

    def load(
        self, key: Hashable, make: Callable[[], T], size_of: Callable[[T], int], *, owner: str
    ) -> T:
        """Return the held value, or make it and hold it.

        The lock is not held meanwhile, so two threads may make the same value.
        """
        held: T | None = self.get(key)
        if held is None:
            held = make()
            self.put(key, held, size_of(held), owner=owner)
        return held

    def take(self, key: Hashable) -> Any | None:  # noqa: ANN401  # the value of any cache
        """Remove a value and return it, for the caller alone; None if it is not held."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is None:
                return None
            self._count(entry.owner, -entry.size_bytes)
            return entry.value

    def take_last(self, keys: list[Hashable]) -> Any | None:  # noqa: ANN401  # as `take`
        """Remove keys from the end of a list until one has a value that is held; return that value.

        Several threads may share the list. None if no value is left.
        """
        while keys:
            try:
                value = self.take(keys.pop())
            except IndexError:  # Another thread was faster.
                return None
            if value is not None:  # Otherwise it was dropped.
                return value
        return None

    @contextmanager
    def lent(self, size_bytes: int, *, owner: str) -> Iterator[None]:
        """Count memory that is in use while the block runs; what is held makes room for it.

        Args:
            size_bytes: The memory that the block takes.
            owner: What it is to a user: ``"decoders"``, …
        """
        num_forks = self._num_forks
        with self._lock:
            self._count(owner, size_bytes)
            self._shrink()
        try:
            yield
        finally:
            with self._lock:
                if num_forks == self._num_forks:
                    self._count(owner, -size_bytes)

    @contextmanager
    def in_hand(self, size_bytes: int, *, owner: str) -> Iterator[None]:
        """Count memory as `lent` does, for work that ends soon and waits for no other thread.

        Threads wait until what they have in hand together fits in a quarter of the limit.
        """
        room = self._room.take(size_bytes, self._limit_bytes // _IN_HAND_SHARE)
        with room, self.lent(size_bytes, owner=owner):
            yield

    def drop(self, key: Hashable) -> None:
        """Remove a value, if it is held."""
        self.take(key)

    def drop_prefix(self, prefix: Hashable) -> None:
        """Remove all values whose key is a tuple that starts with ``prefix``."""
        with self._lock:
            for key in [k for k in self._entries if isinstance(k, tuple) and k[0] == prefix]:
                self.drop(key)

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            for key in list(self._entries):
                self.drop(key)

    def _shrink(self) -> None:
        while self._held_bytes > self._limit_bytes and self._entries:
            _, entry = self._entries.popitem(last=False)
            self._count(entry.owner, -entry.size_bytes)

    def _count(self, owner: str, size_bytes: int) -> None:
        self._held_bytes += size_bytes
        self._held_by[owner] += size_bytes

    def _after_fork(self) -> None:
        # A thread that does not exist in the child may have held the lock.
        self._lock = threading.RLock()
        self._room = Room()
        for key in [key for key, entry in self._entries.items() if not entry.survives_fork]:
            self.drop(key)
        # Most threads that memory was lent to do not exist in the child.
        self._num_forks += 1
        self._held_bytes = 0
        self._held_by.clear()
        for entry in self._entries.values():
            self._count(entry.owner, entry.size_bytes)


_process_budget = Budget()


def process_budget() -> Budget:
    """Return the budget that all datasets of this process share."""
    return _process_budget
