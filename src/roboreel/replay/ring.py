"""The mapped files of a replay buffer, as any process may read them."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, FeatureNotFoundError
from roboreel.files import make_folder, sync_directory, write_atomically
from roboreel.io.reading import open_to_read
from roboreel.replay.header import (
    COPY_BYTES,
    HEADER_BYTES,
    Header,
    HeaderReader,
    current_boot,
)
from roboreel.replay.slots import NumberSlots, Slots, open_slots
from roboreel.replay.spec import FOLDER, RingSpec, check_free_space, write_spec

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

DESCRIPTION = "replay.json"
HEADER = "header.bin"
EPISODES = "episodes.bin"


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The complete episodes at one moment."""

    first_episode: int
    starts: NDArray[np.int64]
    """First row of each, and after them the row where the last one ends, ``(E + 1,)``."""
    tail: int
    """The oldest row."""
    turn: int
    """The row in the first slot, in the turn of the ring in which the oldest row was written."""
    start: int
    """Place of the oldest row: rows counted from `turn`."""
    stop: int
    """The place after the newest row."""

    @classmethod
    def of(cls, first_episode: int, starts: NDArray[np.int64], capacity: int) -> Snapshot:
        """Return the snapshot of episodes that start at these rows."""
        tail, end = int(starts[0]), int(starts[-1])
        turn = tail - tail % capacity
        return cls(first_episode, starts, tail, turn, tail - turn, end - turn)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def num_rows(self) -> int:
        """Frames of all complete episodes."""
        return self.stop - self.start


class Ring:
    """The mapped files of a replay buffer; holds no lock, and changes nothing by itself.

    After reading a row, look at the header: the row is good only if the tail has not passed it. The
    writer moves the tail before it overwrites.
    """

    def __init__(self, root: Path, spec: RingSpec) -> None:
        self.root = root
        self.spec = spec
        for name, size in _file_sizes(spec).items():
            _check_size(root / name, size)
        self.slots: dict[str, Slots] = {
            name: open_slots(root / file, spec.features[name], spec.capacity, spec.slot_bytes(name))
            for name, file in spec.files.items()
        }
        self.encoded = [n for n, s in self.slots.items() if not isinstance(s, NumberSlots)]
        """Features whose values are decoded after they are fetched."""
        with (root / HEADER).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), HEADER_BYTES, access=mmap.ACCESS_READ)
        self.headers = HeaderReader(mapped)
        self._starts = np.memmap(root / EPISODES, np.int64, mode="r", shape=(spec.capacity + 1,))
        empty = Snapshot.of(0, np.zeros(1, np.int64), spec.capacity)
        self._held: tuple[Header | None, Snapshot] = None, empty

    def header(self) -> Header:
        """Return where the ring stands; after a power failure, where it stood when last synced.

        Raises:
            CorruptFileError: All copies of the header are damaged.
        """
        header = self.headers.newest(current_boot())
        if header is None:
            raise CorruptFileError(
                f"All copies of the header are damaged in {str(self.root / HEADER)!r}. "
                "The values in the files beside it are not affected."
            )
        self._check_header(header)
        return header if header.boot == current_boot() else self._after_power_loss(header)

    def array(self, name: str) -> NDArray[Any]:
        """Return the values of a feature by slot, ``(capacity, …)``: the map itself.

        Raises:
            FeatureNotFoundError: There is no such feature, or it is stored as JPEG.
        """
        slots = self.slots.get(name)
        if slots is None:
            raise FeatureNotFoundError(f"No feature {name!r}: there are {list(self.slots)}.")
        if not isinstance(slots, NumberSlots):
            raise FeatureNotFoundError(f"{name!r} is stored as JPEG, not as an array: sample it.")
        return slots.values

    def snapshot(self) -> Snapshot:
        """Return the episodes that are complete now."""
        header, (seen, held) = self.header(), self._held
        if header is seen:
            return held
        if (held.first_episode, int(held.starts[-1])) != (header.first_episode, header.open_start):
            held = self._read_snapshot(header)
        # In one assignment, since several threads may sample.
        self._held = header, held
        return held

    def read(
        self, start: int, stop: int, *, episode_start: int | None = None
    ) -> dict[str, NDArray[Any]] | None:
        """Return the values of rows of one episode by feature; None if it leaves meanwhile.

        Args:
            start: The first row.
            stop: The row after the last.
            episode_start: First row of the episode, if it is not ``start``.
        """
        places = np.arange(start, stop) % self.spec.capacity
        fetched = {name: slots.fetch(places) for name, slots in self.slots.items()}
        if (start if episode_start is None else episode_start) < self.header().tail:
            return None
        # Not earlier: a picture that was half overwritten cannot be decoded.
        return {name: self.slots[name].decode(value) for name, value in fetched.items()}

    def start_of(self, episode: int) -> int:
        """Return the first row of a complete episode."""
        return int(self._starts[episode % len(self._starts)])

    def _check_header(self, header: Header) -> None:
        capacity = self.spec.capacity
        episodes = header.next_episode - header.first_episode
        if not (
            header.first_episode >= 0
            and 0 <= episodes <= capacity
            and 0 <= header.tail <= header.open_start <= header.head <= header.tail + capacity
            and 0 <= header.synced_episode <= header.next_episode
            and 0 <= header.synced_row <= header.open_start
        ):
            raise CorruptFileError(
                f"The header counts {episodes:,} episodes in rows {header.tail:,} to "
                f"{header.head:,}, and the buffer has {capacity:,} slots: "
                f"{str(self.root / HEADER)!r}."
            )

    def _read_snapshot(self, header: Header) -> Snapshot:
        starts = self._read_starts(header.first_episode, header.next_episode)
        starts = np.append(starts, header.open_start)
        # If episodes left meanwhile, newer ones may have taken over their entries.
        gone = max(0, min(self.header().first_episode - header.first_episode, len(starts) - 1))
        starts = starts[gone:]
        if (np.diff(starts) < 0).any() or starts[0] < 0:
            raise CorruptFileError(
                f"The episodes do not lie one after another: {str(self.root / EPISODES)!r}."
            )
        return Snapshot.of(header.first_episode + gone, starts, self.spec.capacity)

    def _read_starts(self, first: int, stop: int) -> NDArray[np.int64]:
        return np.asarray(self._starts)[np.arange(first, stop) % len(self._starts)]

    def _after_power_loss(self, header: Header) -> Header:
        """Return the header without rows that may not be on the disk, or may be half overwritten."""
        first = min(header.first_episode, header.synced_episode)
        oldest = header.reserved - self.spec.capacity
        # A start beyond the synced rows is that of a newer episode, which took over the entry.
        while first < header.synced_episode and not (
            oldest <= self.start_of(first) < header.synced_row
        ):
            first += 1
        tail = self.start_of(first) if first < header.synced_episode else header.synced_row
        return replace(
            header,
            first_episode=first,
            tail=tail,
            next_episode=header.synced_episode,
            open_start=header.synced_row,
            head=header.synced_row,
        )


def create_files(root: Path, spec: RingSpec) -> None:
    """Make the files of an empty buffer; the description, which makes it one, comes last."""
    make_folder(root)
    check_free_space(spec, root)
    make_folder(root / FOLDER)
    for name, size in _file_sizes(spec).items():
        with (root / name).open("wb") as file:
            file.truncate(size)
            os.fsync(file.fileno())
    empty = Header.empty(spec.capacity, current_boot())
    numbers = range(HEADER_BYTES // COPY_BYTES)
    copies = [replace(empty, sequence=n % 2).pack().ljust(COPY_BYTES, b"\0") for n in numbers]
    write_atomically(root / HEADER, b"".join(copies))
    sync_directory(root / FOLDER)
    write_spec(spec, root / DESCRIPTION)


def _file_sizes(spec: RingSpec) -> dict[str, int]:
    slots = {file: spec.capacity * spec.slot_bytes(name) for name, file in spec.files.items()}
    return {HEADER: HEADER_BYTES, EPISODES: 8 * (spec.capacity + 1), **slots}


def _check_size(path: Path, wanted: int) -> None:
    handle, status = open_to_read(path, "file of the replay buffer")
    os.close(handle)
    size = status.st_size
    if size != wanted:
        raise CorruptFileError(
            f"The file has {size:,} bytes, and the buffer needs {wanted:,}: {str(path)!r}."
        )
