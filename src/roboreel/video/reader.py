"""Images of video files, decoded into arrays."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.cores import usable_cores
from roboreel.errors import CorruptFileError, UnsupportedVideoError
from roboreel.image import image_shape
from roboreel.io.batch_buffers import BatchBuffers
from roboreel.io.sources import fetch, has_sources
from roboreel.io.states import state_of
from roboreel.threads import ThreadPool, wait_for_all
from roboreel.video.clip import plan_runs, split_runs
from roboreel.video.demux import DemuxedPackets, demux_packet_table
from roboreel.video.mp4 import read_packet_table
from roboreel.video.packets import FilePackets
from roboreel.video.plan import (
    ClipRequest,
    Job,
    Plan,
    longest,
    packet_spans,
    packets_of,
    plan_batch,
)
from roboreel.video.standing import Decoders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.image import Layout
    from roboreel.io.budget import Budget
    from roboreel.schema import Depth
    from roboreel.video.clip import Run
    from roboreel.video.packet_table import PacketTable
    from roboreel.video.packets import PacketReader
    from roboreel.video.standing import Lease

__all__ = ["ClipRequest", "Target", "VideoReader", "open_packets"]

# A stream decodes this many packets at a time, which bounds how many images it may have to hold.
_STREAM_PACKETS = 64
# Reads that move forward image by image or window by window touch a GOP or two of a file. What
# touches more is a batch at random, behind which nobody goes on.
_MOST_RUNS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Where the images of a plan go, and in which form."""

    images: Sequence[NDArray[Any]] | NDArray[Any]
    """An array for each slot: ``(3, H, W)`` uint8, or ``(1, H, W)`` float32 in metres for depth; with
    channels last if the layout is ``"hwc"``. Images are resized to its height and width."""
    layout: Layout
    depth: Depth | None = None
    """How a depth camera's codes become metres."""
    goes_on: bool = True
    """Whether later reads may go on behind these images: decoders then stay where they stand."""


class VideoReader:
    """Reads images of video files. Safe to use from several threads, and after a fork.

    No file stays open between calls.

    Args:
        budget: Holds packet tables and decoders.
        threads: How many threads decode at the same time. Default: one per core.
    """

    def __init__(self, *, budget: Budget, threads: int | None = None) -> None:
        self.threads = threads or usable_cores()
        self.demuxed: set[Path] = set()
        """Files seen so far that only FFmpeg's demuxer could read, which is slower."""
        self._budget = budget
        self._decoders = budget.share(Decoders)
        self._buffers = budget.share(BatchBuffers)
        self._pool = ThreadPool(self.threads, "roboreel-decode")

    def plan(self, requests: Sequence[ClipRequest], *, beside: int = 1) -> Plan:
        """Return what to decode for some requests, from the tables of their files alone.

        Args:
            requests: What is wanted.
            beside: How many plans are carried out together.

        Raises:
            MissingFileError: A video file does not exist.
            MissingImageError: An episode has no image for a frame.
            CorruptFileError: A file is damaged.
            UnsupportedVideoError: A file cannot be read.
        """
        paths = dict.fromkeys(request.path for request in requests)
        tables = {path: self.table(path) for path in paths}
        return plan_batch(requests, tables, threads=self.threads, beside=beside)

    def read(
        self, plan: Plan, out: NDArray[Any], *, layout: Layout, depth: Depth | None = None
    ) -> None:
        """Decode the images of one plan into an array ``(N, …)``; see `read_all`."""
        target = Target(out, layout, depth)
        self.read_all([(job, target) for job in plan.jobs])

    def read_all(self, work: Sequence[tuple[Job, Target]]) -> None:
        """Decode images into arrays.

        Args:
            work: What to decode, the most expensive first, and where its images go.

        Raises:
            CorruptFileError: A file is damaged.
            UnsupportedVideoError: A file cannot be decoded.
        """
        if has_sources():
            fetch(packet_spans([job for job, _ in work if job.table.via == "mp4"]))
        lanes, left = self._lanes(work), deque(work)
        if lanes == 1:
            self._run_all(left)
            return
        # Each thread takes jobs until none is left: fewer hand-overs than one for every job.
        try:
            wait_for_all([self._pool.submit(self._run_all, left) for _ in range(lanes)])
        finally:
            left.clear()  # After an interrupt, threads end with the job that they are at.

    def stream(
        self,
        request: ClipRequest,
        *,
        layout: Layout,
        size: tuple[int, int] | None = None,
        depth: Depth | None = None,
    ) -> Iterator[NDArray[Any]]:
        """Yield the images of a clip one by one, in bounded memory.

        Args:
            request: What is wanted. Its frames must ascend; its slots are ignored.
            layout: Order of the axes.
            size: Height and width to resize to. Default: those of the video.
            depth: How a depth camera's codes become metres.

        Yields:
            A new array for each frame: ``(3, H, W)`` uint8, or ``(1, H, W)`` float32 for depth.
        """
        table = self.table(request.path)
        height, width = size or table.coding.image_size
        channels, dtype = (3, np.uint8) if depth is None else (1, np.float32)
        shape = image_shape(height, width, channels, layout)
        packets = packets_of(request, table)
        runs = chain.from_iterable(split_runs(plan_runs(packets, table.start), _STREAM_PACKETS))
        wanted = deque(packets.tolist())
        held: dict[int, NDArray[Any]] = {}  # Images whose turn has not come.
        with self._opened(request.path, table, (), _STREAM_PACKETS) as (reader, lease):
            decoder = lease.decoder
            for run in runs:
                for packet, image in decoder.decode(reader, table, run):
                    held[packet] = self._buffers.empty(shape, dtype)
                    decoder.converter.write(image, held[packet], layout, depth)
                    while wanted and wanted[0] in held:
                        turn = wanted.popleft()
                        is_last = not wanted or wanted[0] != turn
                        yield held.pop(turn) if is_last else held[turn].copy()

    def table(self, path: Path) -> PacketTable:
        """Return the packet table of a file, read by our own parser or else by FFmpeg's demuxer.

        The table's ``via`` says which.
        """
        try:
            state = state_of(path)
        except OSError:
            return read_packet_table(path)  # Raises an error that names the file.
        key = ("video table", str(path), *state)
        table = self._budget.load(
            key, lambda: _read_table(path), lambda table: table.nbytes, owner="video tables"
        )
        if table.via != "mp4":
            self.demuxed.add(path)
        return table

    def close(self) -> None:
        """End the threads. They start again when needed."""
        self._pool.close()

    def _lanes(self, work: Sequence[tuple[Job, Target]]) -> int:
        """Return how many jobs run side by side: no more than decoders fit in half of the budget."""
        if len(work) <= 1 or self.threads == 1:
            return 1
        largest = max(
            self._decoders.needed_bytes(job.table, longest(job.runs), goes_on=_goes_on(job, target))
            for job, target in work
        )
        fitting = max(1, self._budget.limit_bytes // 2 // largest)
        return min(len(work), self.threads, fitting)

    def _run_all(self, left: deque[tuple[Job, Target]]) -> None:
        """Run jobs until none is left; other threads take from the same ones."""
        try:
            while left:
                try:
                    job, target = left.popleft()
                except IndexError:  # Another thread was faster.
                    return
                self._run(job, target)
        except BaseException:
            left.clear()
            raise

    def _run(self, job: Job, target: Target) -> None:
        images, layout, depth = target.images, target.layout, target.depth
        runs = job.runs if _goes_on(job, target) else ()
        with self._opened(job.path, job.table, runs, longest(job.runs)) as (reader, lease):
            decoder, keep = lease.decoder, lease.keep_bytes
            write = decoder.converter.write
            for run in job.runs:
                for packet, image in decoder.decode(reader, job.table, run, keep_bytes=keep):
                    first, *others = job.slots[packet]
                    write(image, images[first], layout, depth)
                    for other in others:
                        images[other][...] = images[first]

    @contextmanager
    def _opened(
        self, path: Path, table: PacketTable, runs: Sequence[Run], packets: int
    ) -> Iterator[tuple[PacketReader, Lease]]:
        """Lend a file's packets and a decoder for them to this thread; errors name the file."""
        try:
            lent = self._decoders.lend(table, runs, packets)
            with lent as lease, open_packets(path, table) as reader:
                yield reader, lease
        except (CorruptFileError, UnsupportedVideoError) as error:
            if str(path) in str(error):
                raise
            raise type(error)(f"{error} Video file: {str(path)!r}.") from error


def open_packets(path: Path, table: PacketTable) -> FilePackets | DemuxedPackets:
    """Return a reader of a file's packets, of the kind that its table calls for."""
    return FilePackets(path, table) if table.via == "mp4" else DemuxedPackets(path, table)


def _goes_on(job: Job, target: Target) -> bool:
    return target.goes_on and len(job.runs) <= _MOST_RUNS


def _read_table(path: Path) -> PacketTable:
    try:
        return read_packet_table(path)
    except (CorruptFileError, UnsupportedVideoError) as refusal:
        try:
            return demux_packet_table(path)
        except (CorruptFileError, UnsupportedVideoError):
            raise refusal from None  # It says more precisely what is wrong with the file.
