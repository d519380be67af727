"""The files of one ring, as any process may read them."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, FeatureNotFoundError, MissingFileError
from roboreel.files import sync_directory, write_atomically
from roboreel.replay.columns import Column, NumberColumn, open_column
from roboreel.replay.header import (
    COPY_BYTES,
    HEADER_BYTES,
    Header,
    HeaderReader,
    current_boot,
)
from roboreel.replay.layout import Layout, check_free_space, write_layout
from roboreel.replay.ring import slot_spans

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["DESCRIPTION", "EPISODES", "HEADER", "RingStore", "Snapshot", "create_files"]

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


class RingStore:
    """The mapped files of one buffer; holds no lock and changes nothing of its own accord.

    A row read from it counts only if the header's tail is not beyond it afterwards: the writer announces
    what it will overwrite before it does.
    """

    def __init__(self, root: Path, layout: Layout) -> None:
        self.root = root
        self.layout = layout
        for name, size in _file_sizes(layout).items():
            _check_size(root / name, size)
        self.columns: dict[str, Column] = {
            name: open_column(
                root / file, layout.features[name], layout.capacity, layout.slot_bytes(name)
            )
            for name, file in layout.files.items()
        }
        self.encoded = [n for n, c in self.columns.items() if not isinstance(c, NumberColumn)]
        """Features whose values are decoded after they are fetched."""
        with (root / HEADER).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), HEADER_BYTES, access=mmap.ACCESS_READ)
        self._header = HeaderReader(mapped)
        self._starts = np.memmap(root / EPISODES, np.int64, mode="r", shape=(layout.capacity + 1,))
        empty = Snapshot.of(0, np.zeros(1, np.int64), layout.capacity)
        self._held: tuple[Header | None, Snapshot] = None, empty

    def header(self) -> Header:
        """Return where the ring stands; after a loss of power, where it stood when last synced.

        Raises:
            CorruptFileError: Both copies of the header are damaged.
        """
        header = self._header.newest()
        if header is None:
            raise CorruptFileError(
                f"Both copies of the header are damaged in {str(self.root / HEADER)!r}. "
                "The columns beside it still hold the values."
            )
        return header if header.boot == current_boot() else self._after_power_loss(header)

    def array(self, name: str) -> NDArray[Any]:
        """Return the values of a feature by slot, ``(capacity, …)``: the map itself.

        Raises:
            FeatureNotFoundError: There is no such feature, or it is stored as JPEG.
        """
        column = self.columns.get(name)
        if column is None:
            raise FeatureNotFoundError(f"No feature {name!r}: there are {list(self.columns)}.")
        if not isinstance(column, NumberColumn):
            raise FeatureNotFoundError(f"{name!r} is stored as JPEG, not as an array: sample it.")
        return column.values

    def snapshot(self) -> Snapshot:
        """Return the complete episodes of this moment."""
        header, (seen, held) = self.header(), self._held
        if header is seen:
            return held
        if (held.first_episode, int(held.starts[-1])) != (header.first_episode, header.open_start):
            held = self._read_snapshot(header)
        # Both at once, since several threads may sample.
        self._held = header, held
        return held

    def start_of(self, episode: int) -> int:
        """Return the first row of a complete episode."""
        return int(self._starts[episode % len(self._starts)])

    def _read_snapshot(self, header: Header) -> Snapshot:
        starts = self._read_starts(header.first_episode, header.next_episode)
        starts = np.append(starts, header.open_start)
        # Entries of episodes that left while they were read may be those of newer ones.
        gone = max(0, min(self.header().first_episode - header.first_episode, len(starts) - 1))
        return Snapshot.of(header.first_episode + gone, starts[gone:], self.layout.capacity)

    def _read_starts(self, first: int, stop: int) -> NDArray[np.int64]:
        spans = slot_spans(first, stop, len(self._starts))
        return np.concatenate([self._starts[start:end] for start, end in spans])

    def _after_power_loss(self, header: Header) -> Header:
        """Return the header without what may not have reached the disk, or was half overwritten."""
        first = min(header.first_episode, header.synced_episode)
        oldest = header.reserved - self.layout.capacity
        # A start beyond the synced rows belongs to a newer episode that took the entry over.
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


def create_files(root: Path, layout: Layout) -> None:
    """Make the files of an empty buffer; the description comes last and makes it one."""
    root.mkdir(parents=True, exist_ok=True)
    check_free_space(layout, root)
    (root / "columns").mkdir(exist_ok=True)
    for name, size in _file_sizes(layout).items():
        with (root / name).open("wb") as file:
            file.truncate(size)
            os.fsync(file.fileno())
    empty = Header.empty(layout.capacity, current_boot())
    copies = [replace(empty, sequence=number).pack().ljust(COPY_BYTES, b"\0") for number in (0, 1)]
    write_atomically(root / HEADER, b"".join(copies))
    sync_directory(root / "columns")
    write_layout(layout, root / DESCRIPTION)


def _file_sizes(layout: Layout) -> dict[str, int]:
    columns = {
        file: layout.capacity * layout.slot_bytes(name) for name, file in layout.files.items()
    }
    return {HEADER: HEADER_BYTES, EPISODES: 8 * (layout.capacity + 1), **columns}


def _check_size(path: Path, wanted: int) -> None:
    if not path.exists():
        raise MissingFileError(f"A file of the replay buffer is gone: {str(path)!r}.")
    size = path.stat().st_size
    if size != wanted:
        raise CorruptFileError(f"{size:,} bytes where {wanted:,} belong, in {str(path)!r}.")
