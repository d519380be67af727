"""The packets of a clip as an MP4 file of their own; nothing is decoded."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import av
import numpy as np

from roboreel.video.boxes import Inside
from roboreel.video.clip import plan_runs
from roboreel.video.container import open_container
from roboreel.video.exact_start import last_exact_start
from roboreel.video.index_writer import decoding_ticks
from roboreel.video.reader import open_packets

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.video.packet_table import PacketTable

_UNROTATED = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
"""The matrix of a track that is shown as it is stored."""


def make_clip_file(
    path: Path, table: PacketTable, packets: NDArray[np.int64], *, fps: float
) -> tuple[bytes, NDArray[np.int64]]:
    """Return an MP4 file of some images of a video, and when each of them is shown in it.

    The file begins at the keyframe that the first image needs, so that it may hold images before
    the first one; with gradual refresh, at one before that.

    Args:
        path: The video file.
        table: Its packets.
        packets: The packet of each image, ``(N,)``.
        fps: Images per second.

    Returns:
        The bytes of the file, and nanoseconds ``(N,)``.
    """
    start, stop = _needed(path, table, packets)
    ticks = table.pts[start:stop] - table.pts[start]
    # A player stops after the last image's duration: without one it would not be shown.
    duration = max(round(1 / (fps * table.time_base)), 1)
    file = _copy(path, table, start, ticks, duration)
    # Rounded up: a moment just before an image would still show the one before it.
    clock = table.time_base
    moments = -(-ticks[packets - start] * 10**9 * clock.numerator // clock.denominator)
    return file, moments.astype(np.int64)


def is_exact(path: Path, table: PacketTable, packets: NDArray[np.int64]) -> bool:
    """Return whether the file that `make_clip_file` makes shows these images and no others.

    It does if the first image is a keyframe, and no packet in between is left out or shown twice.
    """
    start, stop = _needed(path, table, packets)
    kept = start + np.flatnonzero(table.pts[start:stop] >= table.pts[start])
    return bool(table.keyframe[start]) and np.array_equal(np.sort(packets), kept)


def _needed(path: Path, table: PacketTable, packets: NDArray[np.int64]) -> tuple[int, int]:
    """Return the span of packets that decoding some images takes."""
    runs = plan_runs(packets, table.start)
    first, stop = min(run.start for run in runs), max(run.stop for run in runs)
    with open_packets(path, table) as reader:
        return last_exact_start(reader, table, first), stop


def _copy(
    path: Path, table: PacketTable, start: int, ticks: NDArray[np.int64], duration: int
) -> bytes:
    """Return a file of the packets from ``start`` on, shown at ``ticks``; before 0, left out."""
    # Images shown before the first keyframe depend on packets that are not copied.
    kept = ticks >= 0
    times = zip(ticks[kept].tolist(), decoding_ticks(ticks[kept]).tolist(), strict=True)
    clock, out = str(table.time_base.denominator), io.BytesIO()
    options = {"video_track_timescale": clock, "movie_timescale": clock}
    with (
        # For the codec's parameters: it reads headers only.
        open_container(path) as source,
        av.open(out, "w", format="mp4", options=options) as target,
        open_packets(path, table) as reader,
    ):
        stream = target.add_stream_from_template(source.streams.video[0], opaque=True)
        for number, data in reader.read(start, start + len(ticks)):
            if not kept[number - start]:
                continue
            packet = av.Packet(bytes(data))
            packet.stream, packet.time_base = stream, table.time_base
            packet.pts, packet.dts = next(times)
            packet.duration = duration
            packet.is_keyframe = bool(table.keyframe[number])
            target.mux(packet)
    _show_as_stored(out.getbuffer())
    return out.getvalue()


def _show_as_stored(file: memoryview) -> None:
    """Remove a rotation from the header of the track, which the source may have.

    Images are shown as they are read: see docs/format.md.
    """
    header = Inside(file).require(b"moov", b"trak", b"tkhd")
    # After version, flags, times, number and duration, of 32 or 64 bits, layer and volume.
    at = 52 if header[0] == 1 else 40
    header[at : at + len(_UNROTATED)] = _UNROTATED
