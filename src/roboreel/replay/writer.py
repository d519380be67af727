"""The one process that adds to a ring."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from roboreel.errors import BufferInUseError, FrameError
from roboreel.replay.columns import write_at
from roboreel.replay.header import copy_offset, current_boot
from roboreel.replay.ring import slot_spans
from roboreel.replay.store import EPISODES, HEADER, RingStore

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from filelock import BaseFileLock
    from numpy.typing import NDArray

__all__ = ["RingWriter", "lock_for_writing"]

# After the first turn one sync of the header in so many parts of the ring.
_RESERVATIONS_PER_TURN = 64


class RingWriter:
    """Adds frames to a ring, always in this order: announce, write, publish.

    Announced is what will be overwritten, so that readers leave it alone; published is what is
    complete. Between any two instructions the header tells the truth, so a killed process loses
    only the frame or episode it was just adding.
    """

    def __init__(self, store: RingStore) -> None:
        self._store = store
        self._capacity = store.layout.capacity
        self.pid = os.getpid()
        with ExitStack() as stack:
            lock = lock_for_writing(store.root)
            stack.callback(lock.release)
            self._files = {
                name: _open(column.path, stack) for name, column in store.columns.items()
            }
            self._header_file = _open(store.root / HEADER, stack)
            self._starts_file = _open(store.root / EPISODES, stack)
            self._header = store.header()
            if self._header.boot != current_boot():
                self._publish(durable=True, boot=current_boot())
            self._stack = stack.pop_all()

    @property
    def open_frames(self) -> int:
        """Frames of the episode that is being added."""
        return self._header.head - self._header.open_start

    def append(self, values: dict[str, NDArray[Any]], *, end: bool) -> None:
        """Add frames to the open episode.

        Args:
            values: Checked values, each ``(T, …)``.
            end: Whether the episode is complete with them.

        Raises:
            FrameError: The episode would be longer than the ring.
            OSError: The disk is full; the frames were not added.
        """
        count = len(next(iter(values.values())))
        if self.open_frames + count > self._capacity:
            raise FrameError(
                f"The episode would have {self.open_frames + count:,} frames: the buffer holds "
                f"{self._capacity:,}. End it earlier, or make a buffer of larger capacity."
            )
        columns = self._store.columns
        encoded = {name: columns[name].encode(value) for name, value in values.items()}
        head = self._header.head
        self._make_room(head + count)
        done = 0
        for start, stop in slot_spans(head, head + count, self._capacity):
            for name, value in encoded.items():
                columns[name].write(self._files[name], start, value[done : done + stop - start])
            done += stop - start
        if end:
            self._publish_end(head + count)
        else:
            self._publish(head=head + count)

    def end_episode(self) -> None:
        """Make the open episode complete."""
        self._publish_end(self._header.head)

    def discard_episode(self) -> None:
        """Forget the open episode."""
        self._publish(head=self._header.open_start)

    def flush(self) -> None:
        """Wait until all complete episodes are on the disk, and say so in the header."""
        for name, file in self._files.items():
            self._store.columns[name].flush()
            os.fsync(file.fileno())
        os.fsync(self._starts_file.fileno())
        self._publish(
            durable=True,
            synced_episode=self._header.next_episode,
            synced_row=self._header.open_start,
        )

    def close(self) -> None:
        """Close the files and let another process write."""
        self._stack.close()

    def _make_room(self, head: int) -> None:
        """Announce which episodes leave, so that the rows up to ``head`` may be written."""
        header, oldest = self._header, head - self._capacity
        first, tail = header.first_episode, header.tail
        while tail < oldest:
            first += 1
            tail = self._store.start_of(first) if first < header.next_episode else header.open_start
        if head > header.reserved:
            ahead = -(-self._capacity // _RESERVATIONS_PER_TURN)
            self._publish(durable=True, first_episode=first, tail=tail, reserved=head + ahead)
        elif first != header.first_episode:
            self._publish(first_episode=first, tail=tail)

    def _publish_end(self, head: int) -> None:
        header = self._header
        entry = header.next_episode % (self._capacity + 1)
        write_at(self._starts_file, 8 * entry, np.int64(header.open_start).tobytes())
        self._publish(next_episode=header.next_episode + 1, open_start=head, head=head)

    def _publish(self, *, durable: bool = False, **changes: Any) -> None:  # noqa: ANN401  # fields of Header
        """Replace the older copy of the header; both, and on the disk, if it must be durable."""
        for _ in range(2 if durable else 1):
            self._header = replace(self._header, sequence=self._header.sequence + 1, **changes)
            write_at(self._header_file, copy_offset(self._header.sequence), self._header.pack())
        if durable:
            os.fsync(self._header_file.fileno())


def lock_for_writing(root: Path, *, timeout_s: float = 0.0) -> BaseFileLock:
    """Take the lock of a buffer's writer.

    Raises:
        BufferInUseError: Another buffer object, here or in another process, has it.
    """
    # Not bound to a thread: an actor may add from another one than the one that opened.
    lock = FileLock(root / "writer.lock", thread_local=False)
    try:
        lock.acquire(timeout=timeout_s)
    except Timeout:
        raise BufferInUseError(
            f"Only one process may add to a replay buffer, and another one does. Sampling and "
            f"changing values in place work beside it. Close the other: {str(root)!r}."
        ) from None
    return lock


def _open(path: Path, stack: ExitStack) -> FileIO:
    return stack.enter_context(path.open("r+b", buffering=0))
