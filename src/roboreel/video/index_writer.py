"""The boxes of a new MP4 file around packets that are copied: what they are, and where they lie."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.io.reading import SpanReader
from roboreel.video import boxes
from roboreel.video.mp4 import read_movie, timescale_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_FTYP = b"isom\x00\x00\x02\x00isomiso2mp41"
_MATRIX = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
_VMHD = bytes([0, 0, 0, 1]) + bytes(8)
_NO_URL = struct.pack(">II", 0, 1) + struct.pack(">I4sI", 12, b"url ", 1)
_UNDETERMINED = 0x55C4
"""The code of a language that is not known."""
_LONG = 2**32 - 16


@dataclass(frozen=True, slots=True)
class TrackHeader:
    """What a new file takes over from the video track of another one, byte by byte."""

    ftyp: bytes
    timescale: int
    shape: bytes
    """Matrix, width and height of ``tkhd``."""
    handler: bytes
    description: bytes
    """The content of ``stsd``: codec, size, colours."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexRows:
    """The packets of a new file, in decoding order."""

    size: NDArray[np.int32]
    pts: NDArray[np.int64]
    """From 0 on."""
    keyframe: NDArray[np.bool_]
    lists_keyframes: bool
    per_part: Sequence[int]
    """How many packets each part has; a part lies in one piece."""
    step: int
    """How long the last image is shown, in ticks."""
    hidden: tuple[int, int]
    """Ticks before the first image that is shown, and ticks that are shown; 0 for all."""


def read_track_header(path: Path) -> TrackHeader:
    """Return what a new file takes over from a video.

    Raises:
        CorruptFileError: The file is damaged.
        UnsupportedVideoError: The file has no video track.
    """
    with SpanReader(path, "video file") as file:
        _, track, _ = read_movie(file)
        brands = (item for item in boxes.file_boxes(file) if item.kind == b"ftyp")
        brand = next(brands, None)
        ftyp = _FTYP if brand is None else bytes(file.read(brand.body, brand.stop))
    return TrackHeader(
        ftyp=ftyp,
        timescale=timescale_of(track.require(b"mdia", b"mdhd")),
        shape=bytes(track.require(b"tkhd")[-44:]),
        handler=bytes(track.require(b"mdia", b"hdlr")),
        description=bytes(track.require(b"mdia", b"minf", b"stbl", b"stsd")),
    )


def file_head(header: TrackHeader, rows: IndexRows) -> bytes:
    """Return all of a file but its packets, which follow one another right behind."""
    size_bytes = int(rows.size.sum(dtype=np.int64))
    brand = box(b"ftyp", header.ftyp)
    data = struct.pack(">I4s", size_bytes + 8, b"mdat")
    if size_bytes >= _LONG:
        data = struct.pack(">I4sQ", 1, b"mdat", size_bytes + 16)
    # Written once to learn its size, which does not depend on where the packets begin.
    begin = len(brand) + len(_index_box(header, rows, 0)) + len(data)
    return brand + _index_box(header, rows, begin) + data


def _index_box(header: TrackHeader, rows: IndexRows, begin: int) -> bytes:
    """Return the ``moov`` box of packets that begin at a byte of the file."""
    dts = decoding_ticks(rows.pts)
    length = int(rows.pts.max()) + rows.step
    early = -int(dts[0])
    before, shown = rows.hidden
    edit = struct.pack(">IIQqI", 1 << 24, 1, shown or length, early + before, 1 << 16)
    media = [
        box(
            b"mdhd", _clock(header.timescale, length + early) + struct.pack(">HH", _UNDETERMINED, 0)
        ),
        box(b"hdlr", header.handler),
        box(
            b"minf",
            box(b"vmhd", _VMHD),
            box(b"dinf", box(b"dref", _NO_URL)),
            box(b"stbl", *_tables(header, rows, dts, begin)),
        ),
    ]
    track = [
        box(b"tkhd", _track_head(shown or length), header.shape),
        box(b"edts", box(b"elst", edit)),
        box(b"mdia", *media),
    ]
    movie = struct.pack(">IH10x", 1 << 16, 1 << 8) + _MATRIX + bytes(24) + struct.pack(">I", 2)
    head = box(b"mvhd", _clock(header.timescale, shown or length) + movie)
    return box(b"moov", head, box(b"trak", *track))


def keyframe_table(keyframes: NDArray[np.bool_]) -> bytes:
    """Return the ``stss`` box that lists the keyframes among packets in decoding order."""
    numbers = np.flatnonzero(keyframes) + 1
    return box(b"stss", struct.pack(">II", 0, len(numbers)), _u4(numbers))


def decoding_ticks(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the decoding tick of each packet: ascending, and never after its presentation.

    Calculated rather than copied, since encoders differ in how early they start.

    Args:
        ticks: Presentation tick of every packet, ``(P,)``, distinct, in decoding order.

    Examples:
        >>> decoding_ticks(np.array([0, 3, 1, 2])).tolist()
        [-1, 0, 1, 2]
    """
    shown = np.sort(ticks)
    early = int((shown - ticks).max())
    return shown - early


def _clock(timescale: int, length: int) -> bytes:
    """Return how ``mvhd`` and ``mdhd`` begin, in version 1."""
    return struct.pack(">IQQIQ", 1 << 24, 0, 0, timescale, length)


def _track_head(length: int) -> bytes:
    # Version 1, enabled, in the movie; track 1.
    return struct.pack(">IQQIIQQHHHH", 1 << 24 | 3, 0, 0, 1, 0, length, 0, 0, 0, 0, 0)


def _tables(
    header: TrackHeader, rows: IndexRows, dts: NDArray[np.int64], begin: int
) -> list[bytes]:
    lasting = np.append(np.diff(dts), rows.step)
    delay = rows.pts - dts
    tables = [box(b"stsd", header.description), box(b"stts", _run_lengths(lasting))]
    if delay.any():
        tables.append(box(b"ctts", _run_lengths(delay)))
    if rows.lists_keyframes and not rows.keyframe.all():
        tables.append(keyframe_table(rows.keyframe))
    parts = np.asarray(rows.per_part, np.int64)
    chunks = np.stack([np.arange(1, len(parts) + 1), parts, np.ones(len(parts), np.int64)], 1)
    ends = np.cumsum(rows.size.astype(np.int64))
    starts = begin + np.append(0, ends[np.cumsum(parts)[:-1] - 1])
    return [
        *tables,
        box(b"stsc", struct.pack(">II", 0, len(parts)), _u4(chunks)),
        box(b"stsz", struct.pack(">III", 0, 0, len(rows.size)), _u4(rows.size)),
        box(b"co64", struct.pack(">II", 0, len(parts)), starts.astype(">u8").tobytes()),
    ]


def _run_lengths(values: NDArray[np.int64]) -> bytes:
    """Return a table of equal values that follow one another."""
    first = np.append(0, np.flatnonzero(np.diff(values)) + 1)
    counts = np.diff(np.append(first, len(values)))
    return struct.pack(">II", 0, len(first)) + _u4(np.stack([counts, values[first]], 1))


def _u4(values: NDArray[np.int64] | NDArray[np.int32]) -> bytes:
    return values.astype(">u4").tobytes()


def box(kind: bytes, *content: bytes | memoryview) -> bytes:
    """Return a box of some content."""
    body = b"".join(content)
    return struct.pack(">I4s", len(body) + 8, kind) + body
