"""A remote dataset, mirrored: its files are read as if they were here."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from roboreel.errors import MirrorError, MissingFileError, RemoteError
from roboreel.forking import after_fork
from roboreel.mirror.counts import Counts
from roboreel.mirror.fetching import Fetcher
from roboreel.mirror.geometry import (
    BLOCK_BYTES,
    SEGMENT_BLOCKS,
    SEGMENT_BYTES,
    blocks_of,
)
from roboreel.mirror.tree import make_places
from roboreel.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.mirror.client import Client
    from roboreel.mirror.counts import Fetched
    from roboreel.mirror.file_table import FileEntry
    from roboreel.mirror.folder import MirrorFolder
    from roboreel.mirror.holes import SparseFile
    from roboreel.mirror.home import MirrorHome

_ASKED_AT_ONCE = 32
# What one core has stored, others see in that order: there a block that is marked is there.
_STORES_IN_ORDER = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686", "x86")


class Mirror:
    """The source of all files below one folder: see `roboreel.io.sources`.

    Args:
        home: Where the mirror lies, with the limit of bytes.
        folder: The mirror.
        client: Talks to the server.
        url: Where the files come from, without any secret.
        is_listed: Whether the server listed all files; otherwise each is asked for by its name.
    """

    def __init__(
        self, home: MirrorHome, folder: MirrorFolder, client: Client, url: str, *, is_listed: bool
    ) -> None:
        self.home = home
        self.folder = folder
        self.url = url
        self.root = f"{folder.tree}{os.sep}"
        self._client = client
        self._is_listed = is_listed
        self._absent: set[str] = set()
        self._failure: RemoteError | None = None
        self._counts = Counts()
        folder.use.hold()
        self._fetcher = Fetcher(home, folder, client, self._counts)
        after_fork(self, Mirror._after_fork)

    def open(self, path: Path, noun: str) -> MirrorBytes:
        """Return the bytes of a file.

        Raises:
            MissingFileError: There is no such file.
        """
        entry = self._find(self._name(path))
        if entry is None:
            raise MissingFileError(
                f"There is no {noun} {self._name(path)!r} at {self.url!r}. Its place here is "
                f"{str(path)!r}."
            )
        return MirrorBytes(self, entry)

    @property
    def room_bytes(self) -> int:
        """How many bytes it keeps, together with the other mirrors of its home."""
        return self.home.room_bytes

    @property
    def failure(self) -> RemoteError | None:
        """The last error of the network since `forget_failure`, even if somebody caught it."""
        return self._failure

    def forget_failure(self) -> None:
        """Begin anew."""
        self._failure = None

    def look_for(self, names: Sequence[str]) -> None:
        """Find out which of some files exist, if the server has no list of them."""
        new = [] if self._is_listed else [n for n in names if self.folder.table.find(n) is None]
        with ThreadPool(_ASKED_AT_ONCE, "roboreel-find") as pool:
            list(pool.map(self._find, new))

    def size_of(self, path: Path) -> int | None:
        """Return how large a file is; None if there is none."""
        entry = self._find(self._name(path))
        return None if entry is None else entry.file.size_bytes

    def fetch(self, wanted: Mapping[Path, Sequence[tuple[int, int]]]) -> int:
        """Have spans of several files at hand, in as few rounds as possible.

        What does not fit in half of the limit is left to be fetched when it is read.

        Returns:
            How many bytes were missing.
        """
        blocks: dict[int, NDArray[np.int64]] = {}
        room = self.room_bytes // 2
        for path, spans in wanted.items():
            entry = self._find(self._name(path))
            if entry is None:
                continue  # Whoever reads it says so, and knows more of it.
            some = blocks_of(spans, entry.file.size_bytes)
            room -= len(some) * BLOCK_BYTES
            if room < 0:
                break
            blocks[entry.number] = some
        return self.bring(blocks)

    def bring(self, blocks: Mapping[int, NDArray[np.int64]], *, keep: bool = False) -> int:
        """Have blocks of files, by the files' numbers, at hand; return how many bytes were missing."""
        missing = {
            number: lacking
            for number, some in blocks.items()
            if len(lacking := self._fetcher.missing(self.folder.table[number], some))
        }
        self._counts.add(hits=len(blocks) - len(missing), misses=len(missing))
        if missing:
            try:
                self._fetcher.bring(missing)
            except RemoteError as error:
                self._failure = error
                raise
        if keep:
            for number, some in blocks.items():
                segments = self.folder.table[number].segment + some // SEGMENT_BLOCKS
                self.folder.blocks.kept[segments] = 1
        return BLOCK_BYTES * sum(map(len, missing.values()))

    def read(self, entry: FileEntry, file: SparseFile, start: int, stop: int) -> bytes:
        """Return bytes of a file, fetched if they are missing, and checked against eviction."""
        if start >= stop:
            return b""
        # Elsewhere blocks are held first, by locks of the system, which keep the order.
        data = self._copy(entry, file, start, stop) if _STORES_IN_ORDER else None
        if data is None:
            blocks = blocks_of([(start, stop)], entry.file.size_bytes)
            try:
                with self._fetcher.held(entry, blocks):
                    data = self._copy(entry, file, start, stop)
            except RemoteError as error:
                self._failure = error
                raise
        if data is None:
            raise MirrorError(
                f"Bytes {start:,} to {stop:,} of {entry.file.name!r} were lost while they were "
                f"held: {self.url!r}."
            )
        self._counts.add(read_bytes=stop - start)
        return data

    def _copy(self, entry: FileEntry, file: SparseFile, start: int, stop: int) -> bytes | None:
        """Return bytes of a file; None if some are not there, or were evicted meanwhile."""
        maps = self.folder.blocks
        first = entry.segment + start // SEGMENT_BYTES
        last = entry.segment + (stop - 1) // SEGMENT_BYTES + 1
        base = entry.segment * SEGMENT_BLOCKS
        before = maps.evictions(first, last)
        if not maps.are_present(base + start // BLOCK_BYTES, base + (stop - 1) // BLOCK_BYTES + 1):
            return None
        data = file.read(start, stop)
        # The count goes up before bytes go: the same count means the right bytes.
        if maps.evictions(first, last) != before or len(data) != stop - start:
            return None
        self.folder.note_used(first, last)
        return data

    def fetched(self) -> Fetched:
        """Return what this process has fetched."""
        return self._counts.snapshot(self.home.held_bytes(), self.home.limit_bytes)

    def _name(self, path: Path) -> str:
        return str(path)[len(self.root) :].replace("\\", "/")

    def _find(self, name: str) -> FileEntry | None:
        """Return a file; a server without a list is asked for it once."""
        entry = self.folder.table.find(name)
        if entry is not None or self._is_listed or name in self._absent:
            return entry
        self.folder.refresh()
        entry = self.folder.table.find(name)
        if entry is None:
            found = self._client.find(name)
            if found is None:
                self._absent.add(name)
                return None
            with self.home.locked():
                self.folder.table.add([found])
                self.folder.blocks.grow(self.folder.table.num_segments)
                make_places(self.folder.tree, [found])
            entry = self.folder.table.find(name)
        return entry

    def _after_fork(self) -> None:
        self._counts.begin_anew()
        self._client.begin_anew()


class MirrorBytes:
    """The bytes of one mirrored file."""

    __slots__ = ("_entry", "_file", "_mirror")

    def __init__(self, mirror: Mirror, entry: FileEntry) -> None:
        self._mirror = mirror
        self._entry = entry
        self._file = mirror.folder.open(entry)

    @property
    def size_bytes(self) -> int:
        """How large the file is."""
        return self._entry.file.size_bytes

    @property
    def identity(self) -> tuple[int, int, int]:
        """Differs from that of other files of the mirror; a mirror has one version."""
        return (self._entry.number, self.size_bytes, self._entry.file.modified_ns)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``."""
        return self._mirror.read(self._entry, self._file, start, stop)

    def fetch(self, spans: Iterable[tuple[int, int]], *, keep: bool = False) -> None:
        """Have spans at hand, all in one round."""
        blocks = blocks_of(spans, self.size_bytes)
        if len(blocks) * BLOCK_BYTES <= self._mirror.room_bytes // 2:
            self._mirror.bring({self._entry.number: blocks}, keep=keep)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
