"""Blocks that are missing are fetched: by one process and thread each, many requests at once.

The main thread only waits: Ctrl-C can strike it between any two steps, such as claiming a block and
noting that. All that must not be left half done is done by other threads.
"""

from __future__ import annotations

import random
import threading
import time
import warnings
import zlib
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from roboreel.errors import MirrorError, RemoteError
from roboreel.io.sources import Stop, check_stop, stoppable
from roboreel.mirror.block_map import State
from roboreel.mirror.client import NoRangesError
from roboreel.mirror.geometry import BLOCK_BYTES, SEGMENT_BLOCKS, requests_for, runs_of
from roboreel.threads import Job, ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.mirror.client import Client
    from roboreel.mirror.counts import Counts
    from roboreel.mirror.file_table import FileEntry
    from roboreel.mirror.folder import MirrorFolder
    from roboreel.mirror.home import MirrorHome
    from roboreel.mirror.pins import Pin

Result = TypeVar("Result")

_CONNECTIONS = 48
"""Requests at once."""
_POLL_S = 0.002
_MOST_POLL_S = 0.02
# Of its own: the generator that programs seed is left alone.
_JITTER = random.Random()
_ROOM_WAIT_S = 20.0
"""How long to wait for room that others hold."""


class _NoRoomError(Exception):
    """There is no room now for so many bytes."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


class Fetcher:
    """Brings missing blocks of one mirror. Safe to use from several threads and after a fork."""

    def __init__(
        self, home: MirrorHome, folder: MirrorFolder, client: Client, counts: Counts
    ) -> None:
        self._home = home
        self._folder = folder
        self._client = client
        self._counts = counts
        self._whole_files = False
        # Whoever leaves the program does not wait for a server that says nothing.
        self._pool = ThreadPool(_CONNECTIONS, "roboreel-fetch", waits_at_exit=False)
        # Of their own: they wait for those of the pool. One works, others may be giving up.
        self._deputies = ThreadPool(4, "roboreel-deputy", waits_at_exit=False)

    def missing(self, entry: FileEntry, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of a file's blocks are not there."""
        base, state = entry.segment * SEGMENT_BLOCKS, self._folder.blocks.state
        lacking: NDArray[np.int64] = blocks[state[base + blocks] != State.PRESENT]
        if len(lacking) and (state[base + lacking] == State.DOUBTED).any():
            with self._home.locked():  # What is found sound must not be evicted meanwhile.
                self._folder.settle_doubts(entry, lacking)
            lacking = lacking[state[base + lacking] != State.PRESENT]
        return lacking

    def bring(self, wanted: Mapping[int, NDArray[np.int64]]) -> None:
        """Fetch missing blocks of files, by the files' numbers, if there is room now.

        They may be evicted again: readers look for themselves.

        Raises:
            RemoteError: They cannot be fetched.
        """
        self._do_safely(partial(self._bring, wanted))

    def _bring(self, wanted: Mapping[int, NDArray[np.int64]]) -> None:
        pause = _POLL_S
        while True:
            missing = {
                number: lacking
                for number, blocks in wanted.items()
                if len(lacking := self.missing(self._folder.table[number], blocks))
            }
            if not missing:
                return
            check_stop()
            try:
                fetched = self._bring_free(missing)
            except _NoRoomError:
                return
            if fetched:
                pause = _POLL_S
            else:  # Others fetch them.
                time.sleep(pause)
                pause = min(2 * pause, _MOST_POLL_S)

    @contextmanager
    def held(self, entry: FileEntry, blocks: NDArray[np.int64]) -> Iterator[None]:
        """Fetch missing blocks of a file, and keep all from being evicted while in use.

        A thread without room for all of them holds nothing while it waits, so of several that
        wait for each other's room one always gets it.

        Raises:
            RemoteError: They cannot be fetched.
            MirrorError: There is no room for them, or none has become free in time.
        """
        pin = self._folder.pin(entry, blocks)
        try:
            self._do_safely(partial(self._hold, pin, entry, blocks))
            yield
        finally:
            pin.release()

    def _hold(self, pin: Pin, entry: FileEntry, blocks: NDArray[np.int64]) -> None:
        pause, deadline = _POLL_S, time.monotonic() + _ROOM_WAIT_S
        # Once it is taken, what is there stays.
        while len(missing := self.missing(entry, blocks)) or not pin.is_taken:
            check_stop()
            try:
                wanted = {entry.number: missing} if len(missing) else {}
                fetched = self._bring_free(wanted, pin)
            except _NoRoomError as error:
                pin.release()
                home = self._home
                if error.needed > home.room_bytes or time.monotonic() > deadline:
                    raise MirrorError(
                        f"{error.needed:,} bytes are needed at once, and the mirror has no room "
                        f"for them: its limit is {home.limit_bytes:,} bytes, and what others "
                        "fetch or read now stays. Open the dataset with a larger mirror_limit=: "
                        f"{str(home.path)!r}."
                    ) from None
                time.sleep(_MOST_POLL_S * _JITTER.random())
                continue
            if not pin.is_taken:
                self._home.pin(pin)
            elif not fetched:  # Others fetch the rest.
                time.sleep(pause)
                pause = min(2 * pause, _MOST_POLL_S)

    def _do_safely(self, call: Callable[[], Result]) -> Result:
        """Make a call that no interrupt may strike: not in the main thread.

        When this returns or raises, the call is over: an interrupted one gives up within a moment.
        """
        if threading.current_thread() is not threading.main_thread():
            return call()
        stop = Stop()
        job = Job(partial(_call_until, stop, call))
        try:
            self._deputies.start(job)
            return job.result()
        finally:
            stop.is_set = True
            job.cancel()
            if job.is_running:
                job.wait()

    def _bring_free(self, missing: Mapping[int, NDArray[np.int64]], pin: Pin | None = None) -> bool:
        """Fetch the blocks that nobody else fetches; return whether there were any.

        Raises:
            _NoRoomError: There is no room now. A pin is taken together with it, or not at all.
        """
        claimed: dict[int, set[int]] = {}
        jobs: list[Job[None]] = []
        try:
            for entry, span in self._claim(missing, claimed):
                jobs.append(Job(partial(self._request, entry, span, claimed[entry.number])))
            if jobs:
                blocks = self._numbers(claimed)
                if not self._home.reserve(self._folder, blocks, pin):
                    raise _NoRoomError(len(blocks) * BLOCK_BYTES)
            for job in jobs:
                self._pool.start(job)
            _wait(jobs)
        finally:
            self._give_up(jobs, claimed)
        return bool(jobs)

    def _claim(
        self, missing: Mapping[int, NDArray[np.int64]], claimed: dict[int, set[int]]
    ) -> list[tuple[FileEntry, tuple[int, int]]]:
        """Claim the blocks that nobody else fetches; return what to ask for."""
        claims, table, state = self._folder.claims, self._folder.table, self._folder.blocks.state
        requests = []
        for number, blocks in missing.items():
            entry = table[number]
            base = entry.segment * SEGMENT_BLOCKS
            spans = self._spans(entry, blocks)
            whole = np.concatenate([np.arange(first, stop) for first, stop in spans])
            mine = claims.take(base + whole) - base
            claimed[number] = set(mine.tolist())
            there = mine[state[base + mine] == State.PRESENT]  # Fetched a moment ago, or a gap.
            claimed[number].difference_update(there.tolist())
            claims.release((base + there).tolist())
            requests += [(entry, span) for span in spans if claimed[number] & set(range(*span))]
        return requests

    def _spans(self, entry: FileEntry, blocks: NDArray[np.int64]) -> list[tuple[int, int]]:
        count = -(-entry.file.size_bytes // BLOCK_BYTES)
        if self._whole_files:
            return [(0, count)]
        # Where files are not sparse, a part takes as much room as the file.
        return requests_for(blocks if self._home.ability.is_sparse else np.arange(count))

    def _numbers(self, claimed: Mapping[int, set[int]]) -> NDArray[np.int64]:
        """Return blocks of files by their numbers among those of all files."""
        table = self._folder.table
        return np.array(
            sorted(
                table[number].segment * SEGMENT_BLOCKS + block
                for number, blocks in claimed.items()
                for block in blocks
            ),
            np.int64,
        )

    def _give_up(self, jobs: list[Job[None]], claimed: Mapping[int, set[int]]) -> None:
        """Free what was not fetched, once no thread writes to it any more."""
        for job in jobs:
            job.cancel()
        running = [job for job in jobs if job.is_running]
        if running:  # Stopped or failed: the threads that still fetch are not waited for here.
            self._pool.submit(self._free_later, running, claimed)
        else:
            self._free(claimed)

    def _free_later(self, running: list[Job[None]], claimed: Mapping[int, set[int]]) -> None:
        for job in running:
            job.wait()
        self._free(claimed)

    def _free(self, claimed: Mapping[int, set[int]]) -> None:
        left = self._numbers(claimed)
        try:
            wanted = left[self._folder.blocks.state[left] == State.WANTED]
            if len(wanted):
                self._home.give_back(self._folder, wanted)
        finally:
            self._folder.claims.release(left.tolist())

    def _request(self, entry: FileEntry, span: tuple[int, int], claimed: set[int]) -> None:
        start, stop = span[0] * BLOCK_BYTES, min(span[1] * BLOCK_BYTES, entry.file.size_bytes)
        if self._whole_files:
            self._request_whole(entry, claimed)
            return
        try:
            data = memoryview(self._client.read(entry.file, start, stop))
        except NoRangesError:
            self._note_whole_files(entry)
            return  # Asked for again, and then for the whole file.
        self._counts.add(requests=1, fetched_bytes=len(data))
        if len(data) != stop - start:
            raise RemoteError(
                f"{len(data):,} bytes came for bytes {start:,} to {stop:,} of {entry.file.name!r}."
            )
        self._keep(entry, range(*span), start, data, claimed)

    def _request_whole(self, entry: FileEntry, claimed: set[int]) -> None:
        """Fetch all of a file from a server that sends nothing less."""
        at, rest = 0, b""
        size = entry.file.size_bytes
        for part in self._client.read_whole(entry.file):
            rest += bytes(part)
            whole = len(rest) if at + len(rest) == size else len(rest) // BLOCK_BYTES * BLOCK_BYTES
            first, last = at // BLOCK_BYTES, -(-(at + whole) // BLOCK_BYTES)
            self._keep(entry, range(first, last), at, memoryview(rest)[:whole], claimed)
            at, rest = at + whole, rest[whole:]
        self._counts.add(requests=1, fetched_bytes=at)
        if at != size:
            raise RemoteError(f"{at:,} of {size:,} bytes came of {entry.file.name!r}.")

    def _note_whole_files(self, entry: FileEntry) -> None:
        if not self._whole_files:
            self._whole_files = True
            warnings.warn(
                "The server does not send parts of files: whole files are fetched, such as "
                f"{entry.file.name!r} with {entry.file.size_bytes / 1e6:,.1f} MB.",
                UserWarning,
                stacklevel=2,
            )

    def _keep(
        self, entry: FileEntry, fetched: range, start: int, data: memoryview, claimed: set[int]
    ) -> None:
        """Write the claimed blocks of what was fetched, and only then mark them as present.

        The claims end: once evicted, the blocks can be claimed and fetched again.
        """
        blocks = np.array([block for block in fetched if block in claimed], np.int64)
        if not len(blocks):
            return
        base, maps = entry.segment * SEGMENT_BLOCKS, self._folder.blocks
        file = self._folder.open(entry)
        try:
            for run in runs_of(blocks):
                first = int(run[0]) * BLOCK_BYTES - start
                file.write(start + first, data[first : first + len(run) * BLOCK_BYTES])
        finally:
            file.close()
        for block in blocks.tolist():
            first = block * BLOCK_BYTES - start
            maps.checksum[base + block] = zlib.crc32(data[first : first + BLOCK_BYTES])
        # Used, or what is fetched ahead would be the first to go.
        segments = entry.segment + blocks // SEGMENT_BLOCKS
        self._folder.note_used(int(segments[0]), int(segments[-1]) + 1)
        claimed.difference_update(blocks.tolist())
        maps.state[base + blocks] = State.PRESENT
        self._folder.claims.release((base + blocks).tolist())


def _wait(jobs: list[Job[None]]) -> None:
    """Wait for all jobs, or for the first error; give up when this thread is asked to stop."""
    for job in jobs:
        check_stop()
        while not job.wait_for(_MOST_POLL_S):
            check_stop()
        job.result()


def _call_until(stop: Stop, call: Callable[[], Result]) -> Result:
    with stoppable(stop):
        return call()
