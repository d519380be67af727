"""The boxes of a new MP4 file around packets that are copied: what they describe, and where they lie."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.spans.reading import SpanReader
from roboreel.video import boxes
from roboreel.video.mp4 import handler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = [
    "IndexRows",
    "TrackHeader",
    "ftyp_box",
    "index_box",
    "mdat_header",
    "read_track_header",
]

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
        CorruptFileError: The file has no video track.
    """
    with SpanReader(path, "video file") as file:
        found = {box.kind: box for box in boxes.file_boxes(file)}
        if b"moov" not in found:
            raise CorruptFileError(f"There is no 'moov' box: {str(path)!r}.")
        movie = memoryview(file.read(found[b"moov"].body, found[b"moov"].stop))
        brand = found.get(b"ftyp")
        ftyp = _FTYP if brand is None else bytes(file.read(brand.body, brand.stop))
    tracks = [boxes.Inside(box.data) for box in boxes.children(movie) if box.kind == b"trak"]
    track = next((one for one in tracks if handler(one) == b"vide"), None)
    if track is None:
        raise CorruptFileError(f"The file has no video track: {str(path)!r}.")
    clock = track.require(b"mdia", b"mdhd")
    return TrackHeader(
        ftyp=ftyp,
        timescale=boxes.number(clock, "I", 20 if clock[0] else 12),
        shape=bytes(track.require(b"tkhd")[-44:]),
        handler=bytes(track.require(b"mdia", b"hdlr")),
        description=bytes(track.require(b"mdia", b"minf", b"stbl", b"stsd")),
    )


def ftyp_box(header: TrackHeader) -> bytes:
    """Return the box that a file begins with."""
    return _box(b"ftyp", header.ftyp)


def mdat_header(size_bytes: int) -> bytes:
    """Return what stands before the packets."""
    if size_bytes < _LONG:
        return struct.pack(">I4s", size_bytes + 8, b"mdat")
    return struct.pack(">I4sQ", 1, b"mdat", size_bytes + 16)


def index_box(header: TrackHeader, rows: IndexRows, dts: NDArray[np.int64], begin: int) -> bytes:
    """Return the ``moov`` box. Its size does not depend on ``begin``.

    Args:
        header: What the packets are.
        rows: The packets.
        dts: Their decoding ticks, ascending; the first may be before 0.
        begin: Where in the file the first packet lies.
    """
    length = int(rows.pts.max()) + rows.step
    early = -int(dts[0])
    before, shown = rows.hidden
    edit = struct.pack(">IIQqI", 1 << 24, 1, shown or length, early + before, 1 << 16)
    media = [
        _box(
            b"mdhd", _clock(header.timescale, length + early) + struct.pack(">HH", _UNDETERMINED, 0)
        ),
        _box(b"hdlr", header.handler),
        _box(
            b"minf",
            _box(b"vmhd", _VMHD),
            _box(b"dinf", _box(b"dref", _NO_URL)),
            _box(b"stbl", *_tables(header, rows, dts, begin)),
        ),
    ]
    track = [
        _box(b"tkhd", _track_head(shown or length), header.shape),
        _box(b"edts", _box(b"elst", edit)),
        _box(b"mdia", *media),
    ]
    movie = struct.pack(">IH10x", 1 << 16, 1 << 8) + _MATRIX + bytes(24) + struct.pack(">I", 2)
    head = _box(b"mvhd", _clock(header.timescale, shown or length) + movie)
    return _box(b"moov", head, _box(b"trak", *track))


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
    tables = [_box(b"stsd", header.description), _box(b"stts", _run_lengths(lasting))]
    if delay.any():
        tables.append(_box(b"ctts", _run_lengths(delay)))
    if rows.lists_keyframes and not rows.keyframe.all():
        numbers = np.flatnonzero(rows.keyframe) + 1
        tables.append(_box(b"stss", struct.pack(">II", 0, len(numbers)), _u4(numbers)))
    parts = np.asarray(rows.per_part, np.int64)
    chunks = np.stack([np.arange(1, len(parts) + 1), parts, np.ones(len(parts), np.int64)], 1)
    ends = np.cumsum(rows.size.astype(np.int64))
    starts = begin + np.append(0, ends[np.cumsum(parts)[:-1] - 1])
    return [
        *tables,
        _box(b"stsc", struct.pack(">II", 0, len(parts)), _u4(chunks)),
        _box(b"stsz", struct.pack(">III", 0, 0, len(rows.size)), _u4(rows.size)),
        _box(b"co64", struct.pack(">II", 0, len(parts)), starts.astype(">u8").tobytes()),
    ]


def _run_lengths(values: NDArray[np.int64]) -> bytes:
    """Return a table of equal values that follow one another."""
    first = np.append(0, np.flatnonzero(np.diff(values)) + 1)
    counts = np.diff(np.append(first, len(values)))
    return struct.pack(">II", 0, len(first)) + _u4(np.stack([counts, values[first]], 1))


def _u4(values: NDArray[np.int64] | NDArray[np.int32]) -> bytes:
    return values.astype(">u4").tobytes()


def _box(kind: bytes, *content: bytes) -> bytes:
    body = b"".join(content)
    return struct.pack(">I4s", len(body) + 8, kind) + body
