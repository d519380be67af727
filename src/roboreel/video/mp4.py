"""The packet table of an MP4 file, read from its headers alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError, UnsupportedVideoError
from roboreel.io.reading import SpanReader
from roboreel.video import boxes
from roboreel.video.codecs import FACTS
from roboreel.video.fragments import read_fragments
from roboreel.video.packet_table import (
    MAX_TICK,
    Coding,
    Colour,
    PacketColumns,
    PacketTable,
    join_columns,
    reorder_depth,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MAX_PACKETS = 2**22
"""A file that declares more images, 38 hours at 30 per second, is taken to be damaged."""

_END_BYTES = 2**15
"""The index of a clip of 500 images takes about 10 KB."""

_ENTRIES = {kind: (codec, facts) for codec, facts in FACTS.items() for kind in facts.entries}


def read_packet_table(path: Path) -> PacketTable:
    """Return the packet table of the first video track of an MP4 file.

    Reads the headers of the outermost boxes, ``moov`` and, in a fragmented file, every ``moof``,
    but no image data.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: The file is damaged, or not an MP4 file.
        UnsupportedVideoError: The file has something that this parser leaves to FFmpeg: another
            codec, several codec descriptions, several edits.
    """
    with SpanReader(path, "video file") as file:
        try:
            return _read(file)
        except (CorruptFileError, UnsupportedVideoError) as error:
            raise type(error)(f"{error} Video file: {str(path)!r}.") from error


def _read(file: SpanReader) -> PacketTable:
    size_bytes = file.size_bytes
    # The index lies at either end: of a remote file, both are asked for in one round.
    file.fetch([(0, _END_BYTES), (size_bytes - _END_BYTES, size_bytes)], keep=True)
    movie, track, index_at_end = read_movie(file)
    stored = boxes.Inside(track.require(b"mdia", b"minf", b"stbl"))
    columns = _stored_packets(stored, size_bytes)
    lists_keyframes = not len(columns.size) or stored.find(b"stss") is not None
    defaults = _fragment_defaults(movie, track)
    if defaults is not None:
        limit = min(MAX_PACKETS, size_bytes)
        columns = join_columns([columns, *read_fragments(file, *defaults, limit)])
    return _assemble(
        movie,
        track,
        columns,
        size_bytes,
        lists_keyframes=lists_keyframes,
        index_at_end=index_at_end,
    )


def fragmented_track(file: SpanReader) -> tuple[int, memoryview]:
    """Return the ID of a file's video track, and the defaults of its fragments (``trex``).

    Raises:
        CorruptFileError: The file has no header yet, or one without fragments.
        UnsupportedVideoError: The file has no video track.
    """
    movie, track, _ = read_movie(file)
    defaults = _fragment_defaults(movie, track)
    if defaults is None:
        raise CorruptFileError("The file has no fragments.")
    return defaults


def read_movie(file: SpanReader) -> tuple[boxes.Inside, boxes.Inside, bool]:
    """Return the ``moov`` box, its video track, and whether image data comes before it.

    Raises:
        CorruptFileError: There is no such box.
        UnsupportedVideoError: The file has no video track.
    """
    after_images = False
    for box in boxes.file_boxes(file):
        if box.kind == b"moov":
            file.fetch([(box.body, box.stop)], keep=True)
            movie = boxes.Inside(memoryview(file.read(box.body, box.stop)))
            return movie, _video_track(movie), after_images
        after_images |= box.kind == b"mdat"
    raise CorruptFileError(
        "There is no 'moov' box: this is not an MP4 file, or writing it was interrupted."
    )


def _video_track(movie: boxes.Inside) -> boxes.Inside:
    for kind, data in boxes.children(movie.data):
        if kind == b"trak":
            track = boxes.Inside(data)
            if handler(track) == b"vide":
                return track
    raise UnsupportedVideoError("The file has no video track.")


def handler(track: boxes.Inside) -> bytes:
    """Return what a track holds: ``b"vide"`` for video."""
    return bytes(track.require(b"mdia", b"hdlr")[8:12])


def _assemble(
    movie: boxes.Inside,
    track: boxes.Inside,
    columns: PacketColumns,
    size_bytes: int,
    *,
    lists_keyframes: bool,
    index_at_end: bool,
) -> PacketTable:
    if len(columns.size) == 0:
        raise CorruptFileError("The video track has no packets.")
    if columns.offset.min() < 0 or (columns.offset > size_bytes - columns.size).any():
        raise CorruptFileError("Packets lie outside the file: it is damaged or truncated.")
    columns.keyframe[0] = True  # Decoding has to start somewhere.
    timescale = timescale_of(track.require(b"mdia", b"mdhd"))
    movie_timescale = timescale_of(movie.require(b"mvhd"))
    shown, ticks = _present(columns.pts, _edit(track, movie_timescale, timescale))
    description = track.require(b"mdia", b"minf", b"stbl", b"stsd")
    if columns.size.max() > np.iinfo(np.int32).max:
        raise CorruptFileError("A packet is larger than 2 GiB.")
    return PacketTable(
        coding=_coding(description, reorder_depth(columns.pts)),
        time_base=Fraction(1, timescale),
        offset=columns.offset,
        size=columns.size.astype(np.int32),
        dts=columns.dts,
        pts=columns.pts,
        keyframe=columns.keyframe,
        shown=shown,
        ticks=ticks,
        lists_keyframes=lists_keyframes,
        index_at_end=index_at_end,
    )


def timescale_of(header: memoryview) -> int:
    """Return the ticks per second of an ``mdhd`` or ``mvhd`` box."""
    timescale = boxes.number(header, "I", 20 if boxes.number(header, "B", 0) else 12)
    if timescale == 0:
        raise CorruptFileError("The file's clock has 0 ticks per second.")
    return timescale


def _coding(description: memoryview, reorder: int) -> Coding:
    """Return what ``stsd`` says about the codec."""
    count = boxes.number(description, "I", 4)
    if count != 1:
        raise UnsupportedVideoError(f"The video track has {count} codec descriptions, not one.")
    kind, entry = next(boxes.children(description[8:]), (b"", memoryview(b"")))
    if kind not in _ENTRIES:
        raise UnsupportedVideoError(
            f"The video's codec is not supported: {kind.decode('latin-1')!r}."
        )
    codec, facts = _ENTRIES[kind]
    details = {box.kind: box.data for box in boxes.children(entry[78:])}
    record = facts.record
    if record is not None and record not in details:
        raise CorruptFileError(f"The codec's configuration box {record.decode()!r} is missing.")
    return Coding(
        codec=codec,
        extradata=bytes(details[record]) if record is not None else b"",
        width=boxes.number(entry, "H", 24),
        height=boxes.number(entry, "H", 26),
        reorder=reorder,
        colour=_colour(details.get(b"colr")),
    )


def _colour(data: memoryview | None) -> Colour | None:
    kind = b"" if data is None else bytes(data[:4])
    if data is None or kind not in (b"nclx", b"nclc"):
        return None
    primaries, transfer, matrix = (boxes.number(data, "H", at) for at in (4, 6, 8))
    full_range = kind == b"nclx" and boxes.number(data, "B", 10) >= 0x80
    return Colour(primaries, transfer, matrix, full_range)


def _stored_packets(table: boxes.Inside, size_bytes: int) -> PacketColumns:
    """Return the packets that ``stbl`` lists. In a fragmented file there are more elsewhere."""
    size = _sizes(table, size_bytes)
    dts = _starts(_runs(table.require(b"stts"), len(size)))
    pts = dts
    composition = table.find(b"ctts")
    if composition is not None and len(size):
        pts = dts + _runs(composition, len(size), signed=True)
    return PacketColumns(_offsets(table, size), size, dts, pts, _keyframes(table, len(size)))


def _sizes(table: boxes.Inside, size_bytes: int) -> NDArray[np.int64]:
    if table.find(b"stz2") is not None:
        raise UnsupportedVideoError("The sizes of packets are stored in less than 32 bits.")
    box = table.require(b"stsz")
    fixed, count = boxes.number(box, "I", 4), boxes.number(box, "I", 8)
    if fixed == 0:
        return boxes.array(box, ">u4", 12, count).astype(np.int64)
    if count > MAX_PACKETS or fixed * count > size_bytes:
        raise CorruptFileError(
            f"The file declares {count:,} packets of {fixed:,} bytes, more than it can hold."
        )
    return np.full(count, fixed, dtype=np.int64)


def _runs(box: memoryview, count: int, *, signed: bool = False) -> NDArray[np.int64]:
    """Return the values of a run-length table (``stts``, ``ctts``) for the first packets."""
    entries = boxes.array(box, ">u4", 8, 2 * boxes.number(box, "I", 4)).reshape(-1, 2)
    # Clipped before anything is repeated: a run may claim to be billions long.
    stops = np.minimum(np.cumsum(entries[:, 0], dtype=np.int64), count)
    if count and (len(stops) == 0 or stops[-1] < count):
        raise CorruptFileError("A table of times covers only some of the packets.")
    # In practice offsets are signed in all versions, although not in version 0 of the standard.
    values = entries[:, 1].astype(np.uint32).view(np.int32 if signed else np.uint32)
    return np.repeat(values.astype(np.int64), _gaps(stops))


def _gaps(stops: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how far each stop is from the one before it, the first from 0."""
    gaps = stops.copy()
    gaps[1:] -= stops[:-1]
    return gaps


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each length starts when they follow one another from 0."""
    starts: NDArray[np.int64] = np.cumsum(lengths) - lengths
    return starts


def _offsets(table: boxes.Inside, size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each packet. Packets are contiguous inside chunks."""
    chunk_offset = _chunk_offsets(table)
    box = table.require(b"stsc")
    entries = boxes.array(box, ">u4", 8, 3 * boxes.number(box, "I", 4)).reshape(-1, 3)
    first = np.minimum(entries[:, 0].astype(np.int64) - 1, len(chunk_offset))
    if len(size) == 0:
        return size
    if len(first) == 0 or first[0] != 0 or (np.diff(first) < 0).any():
        raise CorruptFileError("The table of chunks is not in order.")
    if (entries[:, 2] != 1).any():
        raise UnsupportedVideoError("Packets use several codec descriptions.")
    chunks = _gaps(np.append(first[1:], len(chunk_offset)))
    per_chunk = np.repeat(entries[:, 1].astype(np.int64), chunks)
    stops = np.minimum(np.cumsum(per_chunk), len(size))
    if len(stops) == 0 or stops[-1] < len(size):
        raise CorruptFileError("The table of chunks covers only some of the packets.")
    starts = np.concatenate([[0], stops[:-1]])
    chunk = np.repeat(np.arange(len(chunk_offset)), stops - starts)
    position = _starts(size)
    first_of_chunk = np.minimum(starts, len(size) - 1)[chunk]
    offsets: NDArray[np.int64] = chunk_offset[chunk] + position - position[first_of_chunk]
    return offsets


def _chunk_offsets(table: boxes.Inside) -> NDArray[np.int64]:
    box, dtype = table.find(b"stco"), ">u4"
    if box is None:
        box, dtype = table.require(b"co64"), ">i8"
    return boxes.array(box, dtype, 8, boxes.number(box, "I", 4)).astype(np.int64)


def _keyframes(table: boxes.Inside, count: int) -> NDArray[np.bool_]:
    box = table.find(b"stss")
    if box is None:
        return np.ones(count, dtype=np.bool_)
    numbers = boxes.array(box, ">u4", 8, boxes.number(box, "I", 4)).astype(np.int64)
    if len(numbers) and (numbers.min() < 1 or numbers.max() > count):
        raise CorruptFileError(
            f"Keyframes are listed that do not exist: there are {count:,} packets."
        )
    keyframe = np.zeros(count, dtype=np.bool_)
    keyframe[numbers - 1] = True
    return keyframe


def _fragment_defaults(movie: boxes.Inside, track: boxes.Inside) -> tuple[int, memoryview] | None:
    """Return the track's ID and ``trex`` box; None if the file has no fragments."""
    extends = movie.find(b"mvex")
    if extends is None:
        return None
    header = track.require(b"tkhd")
    track_id = boxes.number(header, "I", 20 if boxes.number(header, "B", 0) else 12)
    for kind, data in boxes.children(extends):
        if kind == b"trex" and boxes.number(data, "I", 4) == track_id:
            return track_id, data
    return None


@dataclass(frozen=True, slots=True)
class _Edit:
    """Which part of the track is shown, and when, in ticks of the track."""

    delay: int
    """How long nothing is shown at the start."""
    start: int | None = None
    """The first tick that is shown; None for the whole track."""
    length: int = 0
    """0 means to the end."""


def _edit(track: boxes.Inside, movie_timescale: int, timescale: int) -> _Edit:
    """Return what the edit list does: any number of empty edits, then one part of the track."""
    box = track.find(b"edts", b"elst")
    if box is None:
        return _Edit(0)
    count = boxes.number(box, "I", 4)
    wide = boxes.number(box, "B", 0) == 1
    entry = np.dtype(">u8, >i8, >u4" if wide else ">u4, >i4, >u4")
    delay = 0
    for position, (duration, start, _) in enumerate(boxes.array(box, entry, 8, count).tolist()):
        # Durations are in ticks of the movie: rounded to the nearest tick of the track.
        length = (duration * timescale * 2 + movie_timescale) // (movie_timescale * 2)
        if length > MAX_TICK or start > MAX_TICK:
            raise CorruptFileError("The edit list has an out-of-range time.")
        if start >= 0 and position < count - 1:
            raise UnsupportedVideoError(
                f"The edit list has {count} entries and shows more than one part of the track."
            )
        if start >= 0:
            return _Edit(delay, start, length)
        delay = min(delay + length, MAX_TICK)
    return _Edit(delay)


def _present(pts: NDArray[np.int64], edit: _Edit) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the packets that are shown, in order, and the tick of each."""
    in_order = bool((np.diff(pts) >= 0).all())
    shown = np.arange(len(pts)) if in_order else np.argsort(pts, kind="stable")
    ticks = pts if in_order else pts[shown]
    if edit.start is not None:
        first = np.searchsorted(ticks, edit.start)
        last = np.searchsorted(ticks, edit.start + edit.length) if edit.length else len(ticks)
        if last - first < len(ticks):
            shown, ticks = shown[first:last], ticks[first:last]
    shift = edit.delay - (edit.start or 0)
    if shift:  # Otherwise the ticks share the memory of the packets' column.
        ticks = ticks + shift
    return shown.astype(np.int32), ticks
