"""Single rows that are read one after the other: the next few are read along."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import count
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import DatasetError
from roboreel.io.states import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.io.budget import Budget
    from roboreel.sample_spec import SampleSpec

    Batch = dict[str, Any]
    ReadRows = Callable[[list[NDArray[np.int64]]], list[Batch]]

_OWNER = "images read ahead"
# So many rows in a row are no coincidence; after them twice as many are read each time.
_LEAST, _MOST = 3, 16
# What is read ahead may take this share of the budget.
_SHARE = 16
# Orders that are followed at the same time.
_ORDERS = 8
_serials = count()


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """Rows that a thread has read one after the other."""

    thread: int
    """Threads that take turns read for themselves: one would decode what another reads ahead."""
    spec: SampleSpec
    rows: int
    """How many, up to now."""
    ahead: int
    """Half of how many may be read with the next; 0 if none shall be."""


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A row that was read ahead."""

    spec: SampleSpec
    files: tuple[tuple[Path, object], ...]
    """The files that it was read from, and their state before that."""
    batch: Batch


class InOrder:
    """Notices rows that are read one by one, in order, and reads the next ones along with them.

    A read has a cost of its own, whatever it reads: plans, decoders and buffers are looked for. Read
    together, images share it. What is held counts in the budget, and is handed out once.
    Safe to use from several threads, and after a fork.
    """

    def __init__(self, budget: Budget, cameras: Collection[str]) -> None:
        self._budget = budget
        self._cameras = cameras
        self._token = ("read ahead", next(_serials))
        self._orders: dict[int, _Order] = {}
        """By the row that comes next."""
        # Nobody asks for the rows of a dataset that is gone.
        weakref.finalize(self, budget.drop_prefix, self._token).atexit = False

    def read(
        self,
        row: int,
        spec: SampleSpec,
        read: ReadRows,
        *,
        stop: int,
        files_of: Callable[[], Sequence[Path]],
    ) -> Batch:
        """Return a batch of one row.

        Args:
            row: The row.
            spec: What is read of it.
            read: Reads batches of rows, each with memory of its own.
            stop: The end of the rows that may be read along: those of the row's episode.
            files_of: Returns the video files that this episode is read from; none if it has none.
        """
        order, thread = self._orders.pop(row, None), get_ident()
        if order is None or order.thread != thread or order.spec != spec:
            order = _Order(thread, spec, 0, 1)
        held: _Held | None = self._budget.take(self._key(row))
        if held is not None and held.spec == spec and _is_current(held.files):
            self._expect(row + 1, _Order(thread, spec, order.rows + 1, order.ahead))
            return held.batch
        batch, ahead = None, order.ahead
        most = min(2 * ahead, _MOST, stop - row)
        if order.rows >= _LEAST and most > 1 and (files := files_of()):
            batch, ahead = self._read_along(row, spec, read, most, files)
        if batch is None:
            batch = read([np.array([row], np.int64)])[0]
        self._expect(row + 1, _Order(thread, spec, order.rows + 1, ahead))
        return batch

    def _read_along(
        self, row: int, spec: SampleSpec, read: ReadRows, most: int, files: Sequence[Path]
    ) -> tuple[Batch | None, int]:
        """Return the batch of a row, and half of what may be read with the next; hold what follows.

        No batch is returned if that fails.
        """
        try:
            states = tuple((path, state_of(path)) for path in files)
            first, *others = read([np.array([row + i], np.int64) for i in range(most)])
        except (DatasetError, OSError):
            return None, 0  # What is wrong may lie ahead. The row alone says whether it is the row.
        size_bytes = sum(value.nbytes for value in first.values() if isinstance(value, np.ndarray))
        fitting = self._budget.limit_bytes // _SHARE // max(1, size_bytes)
        for place, batch in enumerate(others[:fitting], 1):
            held = _Held(spec, states, self._owned(batch))
            self._budget.put(self._key(row + place), held, size_bytes, owner=_OWNER)
        return self._owned(first), min(most, (1 + fitting) // 2)

    def _expect(self, row: int, order: _Order) -> None:
        if len(self._orders) >= _ORDERS:
            self._orders.clear()  # Reads at random.
        self._orders[row] = order

    def _owned(self, batch: Batch) -> Batch:
        """Return a batch whose numbers do not share memory with those of other rows."""
        return {
            name: value
            if name in self._cameras or not isinstance(value, np.ndarray)
            else value.copy()
            for name, value in batch.items()
        }

    def _key(self, row: int) -> tuple[tuple[str, int], int]:
        return self._token, row


def _is_current(files: tuple[tuple[Path, object], ...]) -> bool:
    try:
        return all(state_of(path) == state for path, state in files)
    except OSError:
        return False
