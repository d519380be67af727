"""The one process that makes a ring or adds to it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from roboreel.errors import BufferInUseError, BufferMismatchError, FrameError, MissingFileError
from roboreel.files import make_folder
from roboreel.replay.header import COPY_BYTES, copy_offset, current_boot
from roboreel.replay.positions import slot_spans
from roboreel.replay.ring import DESCRIPTION, EPISODES, HEADER, Ring, create_files
from roboreel.replay.slots import write_at
from roboreel.replay.spec import RingSpec, describe_difference, read_spec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO
    from pathlib import Path

    from filelock import BaseFileLock
    from numpy.typing import NDArray

    from roboreel.schema import Feature

# After the first turn, the header is synced this many times per turn of the ring.
_RESERVATIONS_PER_TURN = 64


class RingWriter:
    """Adds frames to a ring, always in this order: announce, write, publish.

    It announces what will be overwritten, so that readers leave it alone, and publishes what is
    complete. The header is true between any two instructions, so a process that is killed loses
    only the frame or episode that it was adding.
    """

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._capacity = ring.spec.capacity
        self.pid = os.getpid()
        with ExitStack() as stack:
            lock = lock_for_writing(ring.root)
            stack.callback(lock.release)
            self._handles = {name: _open(slots.path, stack) for name, slots in ring.slots.items()}
            self._header_file = _open(ring.root / HEADER, stack)
            self._starts_file = _open(ring.root / EPISODES, stack)
            # What a killed process wrote may not be on the disk, though it is the newest.
            os.fsync(self._header_file.fileno())
            self._header = ring.header()
            self._next_synced_copy = ring.headers.older_synced_copy()
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
        slots = self._ring.slots
        encoded = {name: slots[name].encode(value) for name, value in values.items()}
        head = self._header.head
        self._make_room(head + count)
        done = 0
        for start, stop in slot_spans(head, head + count, self._capacity):
            for name, value in encoded.items():
                slots[name].write(self._handles[name], start, value[done : done + stop - start])
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
        for name, file in self._handles.items():
            self._ring.slots[name].flush()
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
            tail = self._ring.start_of(first) if first < header.next_episode else header.open_start
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
        """Replace the older copy of the header, after a copy on the disk if it must be durable."""
        header = replace(self._header, sequence=self._header.sequence + 1, **changes)
        if durable:
            # Never the copy that was synced last: it is all there is if the power fails now.
            number = self._next_synced_copy
            write_at(self._header_file, number * COPY_BYTES, header.pack())
            os.fsync(self._header_file.fileno())
            self._next_synced_copy = 5 - number
        write_at(self._header_file, copy_offset(header.sequence), header.pack())
        self._header = header


def lock_for_writing(root: Path, *, timeout_s: float = 0.0) -> BaseFileLock:
    """Return the lock of a buffer's writer, acquired.

    Raises:
        BufferInUseError: Another buffer object, here or in another process, holds it.
    """
    # Not bound to a thread: an actor may add from another thread than the one that opened.
    lock = FileLock(root / "writer.lock", thread_local=False)
    try:
        lock.acquire(timeout=timeout_s)
    except Timeout:
        raise BufferInUseError(
            "Another process adds to this replay buffer, and only one may: close it there. "
            f"Sampling and changing values in place need no such right: {str(root)!r}."
        ) from None
    return lock


def _open(path: Path, stack: ExitStack) -> FileIO:
    return stack.enter_context(path.open("r+b", buffering=0))


# Opening a buffer: it is made if it does not exist, and compared with what is asked for.

# Making a buffer takes milliseconds; wait for another process that is making it.
_CREATION_TIMEOUT_S = 10.0


def open_spec(
    root: Path,
    capacity: int | None,
    features: Mapping[str, Feature] | None,
    fps: float | None,
    tasks: Mapping[int, str] | None,
) -> RingSpec:
    """Return what the buffer in a folder is made of; it is made if it does not exist.

    Raises:
        MissingFileError: It does not exist, and too little is given to make it.
        BufferMismatchError: It has other features, or another capacity, rate or tasks.
    """
    if not (root / DESCRIPTION).exists():
        if capacity is None or features is None:
            raise MissingFileError(
                "There is no replay buffer: give capacity and features to make one, in "
                f"{str(root)!r}."
            )
        _create(root, RingSpec(capacity, dict(features), fps, dict(tasks or {})))
    there = read_spec(root / DESCRIPTION)
    asked = RingSpec(
        there.capacity if capacity is None else capacity,
        there.features if features is None else features,
        fps,
        tasks or {},
    )
    difference = describe_difference(there, asked)
    if difference:
        raise BufferMismatchError(
            f"The replay buffer is not the one asked for: {difference}. Open it without capacity, "
            f"features, fps and tasks, or choose another folder than {str(root)!r}."
        )
    return there


def _create(root: Path, spec: RingSpec) -> None:
    make_folder(root)
    with lock_for_writing(root, timeout_s=_CREATION_TIMEOUT_S):
        # Another process may have made it while this one waited.
        if not (root / DESCRIPTION).exists():
            create_files(root, spec)
