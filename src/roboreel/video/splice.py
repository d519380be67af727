"""MP4 files put together from packets of other MP4 files: a new index, and the packets copied whole.

The index is written from packet tables with array arithmetic, so that the work is the copying. What
describes the codec, the colours and the shape of the picture is taken over byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, EncodingError
from roboreel.files import atomic_file
from roboreel.spans.reading import SpanReader
from roboreel.video.exact_start import begins_at, last_exact_start, needs_a_look
from roboreel.video.mp4 import read_packet_table
from roboreel.video.nal import restarts
from roboreel.video.reader import open_packets
from roboreel.video.remux import decoding_ticks
from roboreel.video.splice_index import (
    IndexRows,
    ftyp_box,
    index_box,
    mdat_header,
    read_track_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.video.packet_table import PacketTable

__all__ = [
    "ImageSpan",
    "can_begin_at",
    "packets_shown",
    "restarts_at",
    "splice_key",
    "splice_videos",
]

_BLOCK_BYTES = 4 * 1024**2


@dataclass(frozen=True, slots=True, eq=False)
class ImageSpan:
    """Consecutive images of a video file."""

    path: Path
    table: PacketTable
    """All packets of the file."""
    start: int
    """Position of the first image, in order of presentation."""
    stop: int
    begin: int
    """The keyframe at which decoding begins."""

    @classmethod
    def of(cls, path: Path, table: PacketTable, start: int, stop: int) -> ImageSpan:
        """Return images of a file, decoded from the last keyframe that leads to the same images."""
        begin = int(table.start[table.shown[start:stop]].min())
        if begin and needs_a_look(table):
            with open_packets(path, table) as packets:
                begin = last_exact_start(packets, table, begin)
        return cls(path, table, start, stop, begin)

    @property
    def packets(self) -> NDArray[np.int64]:
        """The packet of each image."""
        return self.table.shown[self.start : self.stop].astype(np.int64)

    @property
    def needed(self) -> NDArray[np.int64]:
        """All packets that decoding the images takes, in decoding order."""
        table, first, last = self.table, self.begin, int(self.packets.max()) + 1
        # What is shown before the keyframe needs packets that are not copied.
        kept = np.flatnonzero(table.pts[first:last] >= table.pts[first])
        return first + kept

    @property
    def is_exact(self) -> bool:
        """Whether decoding them takes no other image."""
        return len(self.needed) == self.stop - self.start

    @property
    def step(self) -> int:
        """Ticks from one image to the next."""
        return max(round(self.table.step), 1)


def restarts_at(path: Path, table: PacketTable, packet: int) -> bool:
    """Return whether a keyframe of a file may follow packets of another one."""
    if table.coding.codec not in ("h264", "hevc"):
        return True
    start = int(table.offset[packet])
    with SpanReader(path, "video file") as file:
        data = file.read(start, start + int(table.size[packet]))
        return restarts(memoryview(data), table.coding)


def can_begin_at(path: Path, table: PacketTable, packet: int) -> bool:
    """Return whether a file can begin at a keyframe of another one, with the same images."""
    with open_packets(path, table) as packets:
        return begins_at(packets, table, packet)


def splice_key(table: PacketTable) -> tuple[Any, ...] | None:
    """Return a key that is equal for files whose packets can share one; None if none can."""
    if table.via != "mp4":
        return None
    coding = table.coding
    described = (coding.codec, coding.extradata, coding.width, coding.height, coding.colour)
    return (*described, table.time_base, table.lists_keyframes)


def splice_videos(
    spans: Sequence[ImageSpan], out: Path, *, hide: bool = False
) -> list[NDArray[np.int64]]:
    """Write images of several videos to one file, by copying packets; nothing is synced.

    Args:
        spans: Which images, in order. Images of other spans that decoding takes are in the file too.
        out: The file to write.
        hide: Whether an edit list hides what is before and after the images of a single span, so
            that the file begins with its first one.

    Returns:
        For each span the ticks at which its images are shown in the file, ascending.

    Raises:
        EncodingError: The files differ in codec, size or clock, or images behind others belong to
            an open GOP.
        CorruptFileError: A file is damaged.
    """
    keys = {splice_key(span.table) for span in spans}
    if len(keys) != 1 or None in keys:
        raise EncodingError(
            f"Videos of {len(keys)} codings cannot share a file without decoding: "
            f"{', '.join(sorted({str(span.path) for span in spans}))}."
        )
    packets = [span.needed for span in spans]
    for span, part in list(zip(spans, packets, strict=True))[1:]:
        if not restarts_at(span.path, span.table, int(part[0])):
            raise EncodingError(
                f"Image {span.start} follows a keyframe of an open GOP, which cannot come behind other "
                f"packets without encoding it again: {str(span.path)!r}."
            )
    pts, shown = _timeline(spans, packets)
    hidden = _hidden(spans[0], shown[0]) if hide else (0, 0)
    rows = IndexRows(
        size=np.concatenate([s.table.size[p] for s, p in zip(spans, packets, strict=True)]),
        pts=pts,
        keyframe=np.concatenate([s.table.keyframe[p] for s, p in zip(spans, packets, strict=True)]),
        lists_keyframes=spans[0].table.lists_keyframes,
        per_part=[len(part) for part in packets],
        step=spans[-1].step,
        hidden=hidden,
    )
    with atomic_file(out, sync=False) as temporary:
        _write(spans, packets, rows, temporary)
        ticks = [part - hidden[0] for part in shown]
        _check(temporary, rows, np.concatenate(ticks))
    return ticks


def packets_shown(path: Path, table: PacketTable, images: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the packets of some images, ascending, as they lie in a file of our own parser."""
    with SpanReader(path, "video file") as file:
        for packet in table.shown[images].tolist():
            start = int(table.offset[packet])
            yield bytes(file.read(start, start + int(table.size[packet])))


def _timeline(
    spans: Sequence[ImageSpan], packets: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return when each packet is shown, one span after the other, and when the wanted images are."""
    pts, shown, begin = [], [], 0
    for span, part in zip(spans, packets, strict=True):
        stored = span.table.pts
        shift = begin - int(stored[part].min())
        pts.append(stored[part] + shift)
        shown.append(np.sort(stored[span.packets]) + shift)
        begin = int(pts[-1].max()) + span.step
    return np.concatenate(pts), shown


def _hidden(span: ImageSpan, shown: NDArray[np.int64]) -> tuple[int, int]:
    """Return the ticks before the first image, and those that the images take."""
    return int(shown[0]), int(shown[-1] - shown[0]) + span.step


def _write(
    spans: Sequence[ImageSpan], packets: Sequence[NDArray[np.int64]], rows: IndexRows, out: Path
) -> None:
    header = read_track_header(spans[0].path)
    first = ftyp_box(header)
    size_bytes = int(rows.size.sum(dtype=np.int64))
    data = mdat_header(size_bytes)
    dts = decoding_ticks(rows.pts)
    index = index_box(header, rows, dts, 0)
    begin = len(first) + len(index) + len(data)
    index = index_box(header, rows, dts, begin)
    with out.open("wb") as file:
        for piece in (first, index, data):
            file.write(piece)
        for span, part in zip(spans, packets, strict=True):
            for block in _blocks(span, part):
                file.write(block)


def _blocks(span: ImageSpan, packets: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the bytes of packets, those that lie together in one go."""
    offset = span.table.offset[packets]
    stop = offset + span.table.size[packets]
    breaks = np.flatnonzero(offset[1:] != stop[:-1]) + 1
    starts, ends = np.append(0, breaks), np.append(breaks, len(packets)) - 1
    with SpanReader(span.path, "video file") as file:
        for first, last in zip(offset[starts].tolist(), stop[ends].tolist(), strict=True):
            for at in range(first, last, _BLOCK_BYTES):
                yield file.read(at, min(at + _BLOCK_BYTES, last))


def _check(path: Path, rows: IndexRows, ticks: NDArray[np.int64]) -> None:
    """Raise unless the file that was written reads as it was meant."""
    table = read_packet_table(path)
    same = (
        np.array_equal(table.size, rows.size)
        and np.isin(ticks, table.ticks).all()
        and np.array_equal(table.keyframe[1:], rows.keyframe[1:])
    )
    if not same:
        raise CorruptFileError(f"The video that was put together is not as planned: {str(path)!r}.")
