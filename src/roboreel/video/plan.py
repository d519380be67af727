"""Requests for images → the packets to decode, shared out among threads. Pure: no file is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import MissingImageError
from roboreel.video.clip import Clip, images_of, plan_runs, split_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.video.clip import Run, TimesOf
    from roboreel.video.packet_table import PacketTable

# Handing fewer packets than this to a thread costs more than it saves.
_MIN_PACKETS = 8
# Several jobs per thread, so that a slow one at the end does not leave the others idle for long.
_JOBS_PER_THREAD = 4


@dataclass(frozen=True, slots=True, eq=False)
class ClipRequest:
    """Images wanted from one clip."""

    path: Path
    clip: Clip
    frames: NDArray[np.int64]
    """Frame numbers in the episode, ``(N,)``, in any order, repeats allowed."""
    slots: NDArray[np.int64]
    """Where each image goes in the output array, ``(N,)``."""
    episode: int
    """For error messages."""
    camera: str
    """For error messages."""
    times_of: TimesOf | None = None
    """Returns the stored times of frames, in seconds; see `images_of`."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Work for one thread: runs of packets of one file."""

    path: Path
    table: PacketTable
    runs: list[Run]
    slots: dict[int, list[int]]
    """Where the image of each wanted packet of the file goes."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What to decode for a batch of images."""

    jobs: list[Job]
    """The most expensive first."""
    image_sizes: dict[Path, tuple[int, int]]
    """Height and width of the images in each file."""


def plan_batch(
    requests: Sequence[ClipRequest],
    tables: Mapping[Path, PacketTable],
    *,
    threads: int,
    beside: int = 1,
) -> Plan:
    """Return what to decode for some requests.

    Args:
        requests: What is wanted. An image that several of them want is decoded once.
        tables: The packet table of each file.
        threads: How many threads will decode.
        beside: How many plans like this one they carry out together.

    Raises:
        MissingImageError: An episode has no image for a frame.
    """
    sizes = {path: table.coding.image_size for path, table in tables.items()}
    slots: dict[Path, dict[int, list[int]]] = {path: {} for path in tables}
    for request in requests:
        packets, wanted = packets_of(request, tables[request.path]), slots[request.path]
        for packet, slot in zip(packets.tolist(), request.slots.tolist(), strict=True):
            wanted.setdefault(packet, []).append(slot)
    runs = {
        path: plan_runs(np.fromiter(wanted, np.int64, len(wanted)), tables[path].start)
        for path, wanted in slots.items()
    }
    total = sum(map(cost_of, runs.values()))
    parts = 1 if threads == 1 else -(-threads * _JOBS_PER_THREAD // beside)
    target = total if parts == 1 else max(total // parts, _MIN_PACKETS)
    jobs = [
        Job(path, tables[path], part, slots[path])
        for path in runs
        for part in split_runs(runs[path], target)
    ]
    jobs.sort(key=lambda job: cost_of(job.runs), reverse=True)
    return Plan(jobs, sizes)


def packets_of(request: ClipRequest, table: PacketTable) -> NDArray[np.int64]:
    """Return the packet of each requested frame, ``(N,)``.

    Raises:
        MissingImageError: The episode has no image for a frame.
    """
    try:
        images = images_of(
            request.frames,
            request.clip,
            table.ticks,
            table.time_base,
            request.times_of,
            table.step,
        )
    except MissingImageError as error:
        raise MissingImageError(
            f"{error} Episode {request.episode}, camera {request.camera!r}. Leave the "
            f"episode out with select(), or restore its video {str(request.path)!r}."
        ) from error
    return table.shown[images].astype(np.int64)


def packet_spans(jobs: Iterable[Job]) -> dict[Path, list[tuple[int, int]]]:
    """Return the spans of each file that hold the packets of some jobs."""
    spans: dict[Path, list[tuple[int, int]]] = {}
    for job in jobs:
        for run in job.runs:
            start = job.table.offset[run.start : run.stop]
            stop = start + job.table.size[run.start : run.stop]
            first, last = int(start.min()), int(stop.max())
            # Packets of a sound file follow one another; other tracks may lie between them.
            if last - first <= 2 * int((stop - start).sum()):
                one = [(first, last)]
            else:
                one = list(zip(start.tolist(), stop.tolist(), strict=True))
            spans.setdefault(job.path, []).extend(one)
    return spans


def cost_of(runs: Iterable[Run]) -> int:
    """Return how many packets have to be decoded."""
    return sum(run.stop - run.start for run in runs)


def longest(runs: Iterable[Run]) -> int:
    """Return how many packets the longest run has."""
    return max((run.stop - run.start for run in runs), default=0)
