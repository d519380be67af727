"""Images of video files, decoded into arrays."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.cores import usable_cores
from roboreel.errors import CorruptFileError, MissingImageError, UnsupportedVideoError
from roboreel.video.clip import Clip, Run, images_of, plan_runs, split_runs
from roboreel.video.decode import Decoder
from roboreel.video.demux import DemuxedPackets, demux_packet_table
from roboreel.video.mp4 import read_packet_table
from roboreel.video.packets import FilePackets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.memory.budget import Budget
    from roboreel.schema import Depth
    from roboreel.video.convert import Layout
    from roboreel.video.packet_table import PacketTable

__all__ = ["ClipRequest", "VideoReader", "open_packets"]

# Smaller pieces of work than this many packets are not worth handing to a thread.
_MIN_PACKETS = 8
# Pieces of work per thread, so that one slow piece at the end leaves no thread idle for long.
_PIECES_PER_THREAD = 4
# A stream decodes so many packets in one go, so that what it may have to hold stays bounded.
_STREAM_PACKETS = 64


@dataclass(frozen=True, slots=True)
class ClipRequest:
    """Images wanted from one episode's clip of one video file."""

    path: Path
    start_s: float
    """Time of the episode's first image in the file."""
    stop_s: float
    """Time right after its last image; ``math.inf`` for the rest of the file."""
    length: int
    """Frames of the episode."""
    fps: float
    frames: NDArray[np.int64]
    """Frame numbers in the episode, ``(N,)``, in any order, with or without repeats."""
    slots: NDArray[np.int64]
    """Where each goes in the output array, ``(N,)``."""
    episode: int
    """For error messages."""
    camera: str
    """For error messages."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Where images go, and in which form."""

    out: NDArray[Any]
    layout: Layout
    depth: Depth | None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a batch wants of one file."""

    table: PacketTable
    slots: dict[int, list[int]]
    """Where the image of each wanted packet goes."""

    def add(self, request: ClipRequest) -> None:
        packets = _packets_of(request, self.table)
        for packet, slot in zip(packets.tolist(), request.slots.tolist(), strict=True):
            self.slots.setdefault(packet, []).append(slot)

    def runs(self) -> list[Run]:
        packets = np.fromiter(self.slots, np.int64, len(self.slots))
        return plan_runs(packets, self.table.start)


@dataclass(frozen=True, slots=True)
class _Job:
    """A piece of work for one thread: runs of one file."""

    path: Path
    table: PacketTable
    runs: list[Run]
    slots: dict[int, list[int]]
    """Where the image of each wanted packet goes."""


class VideoReader:
    """Reads images of video files; safe to use from several threads, and after a fork.

    No file stays open between calls.

    Args:
        budget: What packet tables and decoders are held in.
        threads: How many threads decode side by side; as many as the process has cores if None.
    """

    def __init__(self, *, budget: Budget, threads: int | None = None) -> None:
        self.threads = threads or usable_cores()
        self.demuxed: set[Path] = set()
        """Files seen so far that only FFmpeg's demuxer could read, which is slower."""
        self._budget = budget
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0

    def read(
        self,
        requests: Sequence[ClipRequest],
        out: NDArray[Any],
        *,
        layout: Layout = "chw",
        depth: Depth | None = None,
    ) -> None:
        """Decode images into an array.

        Args:
            requests: What is wanted, and where in ``out`` it goes. Requests for one file are
                served together, and an image that several want is decoded once.
            out: ``(N, 3, H, W)`` uint8, or ``(N, 1, H, W)`` float32 metres for depth; with the
                channels last for layout ``"hwc"``. A height or width other than the video's
                resizes the images.
            layout: The order of the axes.
            depth: How the codes of a depth camera become metres.

        Raises:
            MissingFileError: A video file is not there.
            MissingImageError: An episode has no image for a frame.
            CorruptFileError: A file is damaged.
            UnsupportedVideoError: A file is of a kind that cannot be read.
        """
        target = _Target(out, layout, depth)
        jobs = self._plan(requests)
        if len(jobs) == 1 or self.threads == 1:
            for job in jobs:
                self._run(job, target)
        else:
            _finish([self._executor().submit(self._run, job, target) for job in jobs])

    def stream(
        self,
        request: ClipRequest,
        *,
        size: tuple[int, int] | None = None,
        layout: Layout = "chw",
        depth: Depth | None = None,
    ) -> Iterator[NDArray[Any]]:
        """Yield the images of a clip one after another, holding one at a time.

        Args:
            request: What is wanted; its frames must ascend, and its slots are not used.
            size: Height and width of the images; the video's own if None.
            layout: The order of the axes.
            depth: How the codes of a depth camera become metres.

        Yields:
            An array of its own for each frame: ``(3, H, W)`` uint8, or ``(1, H, W)`` float32.
        """
        table = self.table(request.path)
        height, width = size or (table.coding.height, table.coding.width)
        channels, dtype = (3, np.uint8) if depth is None else (1, np.float32)
        shape = (channels, height, width) if layout == "chw" else (height, width, channels)
        packets = _packets_of(request, table)
        runs = plan_runs(packets, table.start)
        wanted = deque(packets.tolist())
        held: dict[int, NDArray[Any]] = {}  # Images whose turn has not come.
        with (
            _naming(request.path),
            open_packets(request.path, table) as reader,
            self._decoder(table) as decoder,
        ):
            for run in chain.from_iterable(split_runs(runs, _STREAM_PACKETS)):
                for packet, image in decoder.decode(reader, table, run):
                    held[packet] = np.empty(shape, dtype)
                    decoder.converter.write(image, held[packet], layout, depth)
                    while wanted and wanted[0] in held:
                        turn = wanted.popleft()
                        is_last = not wanted or wanted[0] != turn
                        yield held.pop(turn) if is_last else held[turn].copy()

    def image_shape(self, path: Path) -> tuple[int, int]:
        """Return the height and width of a file's images."""
        coding = self.table(path).coding
        return coding.height, coding.width

    def table(self, path: Path) -> PacketTable:
        """Return the packet table of a file: by our own parser, or else by FFmpeg's.

        The table's ``via`` says which.
        """
        try:
            state = path.stat()
        except OSError:
            return read_packet_table(path)  # Raises, with a sentence.
        key = ("video table", str(path), state.st_size, state.st_mtime_ns)
        table = self._budget.load(
            key, lambda: _read_table(path), lambda table: table.nbytes, owner="video tables"
        )
        if table.via != "mp4":
            self.demuxed.add(path)
        return table

    def close(self) -> None:
        """End the threads; they start again if need be."""
        if self._pool is not None and self._pool_process == os.getpid():
            self._pool.shutdown()
        self._pool = None

    def _plan(self, requests: Sequence[ClipRequest]) -> list[_Job]:
        """Return the pieces of work for a batch, the largest first."""
        files: dict[Path, _Wanted] = {}
        for request in requests:
            wanted = files.get(request.path)
            if wanted is None:
                wanted = files[request.path] = _Wanted(self.table(request.path), {})
            wanted.add(request)
        runs = {path: wanted.runs() for path, wanted in files.items()}
        total = sum(_cost(part) for part in runs.values())
        target = max(total // (self.threads * _PIECES_PER_THREAD), _MIN_PACKETS)
        jobs = [
            _Job(path, wanted.table, part, wanted.slots)
            for path, wanted in files.items()
            for part in split_runs(runs[path], total if self.threads == 1 else target)
        ]
        return sorted(jobs, key=lambda job: _cost(job.runs), reverse=True)

    def _run(self, job: _Job, target: _Target) -> None:
        with (
            _naming(job.path),
            open_packets(job.path, job.table) as reader,
            self._decoder(job.table) as decoder,
        ):
            for run in job.runs:
                for packet, image in decoder.decode(reader, job.table, run):
                    first, *others = job.slots[packet]
                    decoder.converter.write(image, target.out[first], target.layout, target.depth)
                    for other in others:
                        target.out[other] = target.out[first]

    @contextmanager
    def _decoder(self, table: PacketTable) -> Iterator[Decoder]:
        """Lend a decoder to this thread."""
        key = ("decoder", threading.get_ident(), table.coding)
        decoder: Decoder = self._budget.take(key) or Decoder(table.coding)
        yield decoder
        # Not reached after an error: a decoder that met damage is not used again.
        self._budget.put(key, decoder, decoder.nbytes, owner="decoders", survives_fork=False)

    def _executor(self) -> ThreadPoolExecutor:
        # A forked child inherits the pool, but none of its threads.
        if self._pool is None or self._pool_process != os.getpid():
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="roboreel-decode")
            self._pool_process = os.getpid()
        return self._pool


def _read_table(path: Path) -> PacketTable:
    try:
        return read_packet_table(path)
    except (CorruptFileError, UnsupportedVideoError) as refusal:
        try:
            return demux_packet_table(path)
        except (CorruptFileError, UnsupportedVideoError):
            raise refusal from None  # It knows better what is wrong with the file.


def _packets_of(request: ClipRequest, table: PacketTable) -> NDArray[np.int64]:
    """Return the packet of each frame that is wanted."""
    clip = Clip(request.start_s, request.stop_s, request.length, request.fps)
    try:
        images = images_of(request.frames, clip, table.ticks, table.time_base)
    except MissingImageError as error:
        raise MissingImageError(
            f"{error} Episode {request.episode}, camera {request.camera!r}. Leave the "
            f"episode out with select(), or restore its video {str(request.path)!r}."
        ) from error
    return table.shown[images].astype(np.int64)


def open_packets(path: Path, table: PacketTable) -> FilePackets | DemuxedPackets:
    """Return what reads the packets of a file, in the way in which its table was read."""
    return FilePackets(path, table) if table.via == "mp4" else DemuxedPackets(path, table)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file to what a decoder reports, which does not know it."""
    try:
        yield
    except (CorruptFileError, UnsupportedVideoError) as error:
        raise type(error)(f"{error} Video file: {str(path)!r}.") from error


def _cost(runs: Iterable[Run]) -> int:
    """Return how many packets are to be decoded."""
    return sum(run.stop - run.start for run in runs)


def _finish(futures: list[Future[None]]) -> None:
    """Wait for all; raise the first error, and let nothing go on writing after that."""
    _, pending = wait(futures, return_when=FIRST_EXCEPTION)
    for future in pending:
        future.cancel()
    wait(futures)
    for future in futures:
        if not future.cancelled():
            future.result()
