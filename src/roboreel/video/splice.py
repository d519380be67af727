"""MP4 files put together from packets of other MP4 files: a new index, and the packets copied whole.

The index is written from packet tables with array arithmetic, so that the work is the copying. What
describes the codec, the colours and the shape of the picture is taken over byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, EncodingError, UnsupportedVideoError
from roboreel.files import atomic_file
from roboreel.io.reading import SpanReader
from roboreel.video.codecs import nal_units
from roboreel.video.exact_start import begins_at, last_exact_start
from roboreel.video.index_writer import IndexRows, file_head, read_track_header
from roboreel.video.mp4 import read_packet_table
from roboreel.video.nal import restarts
from roboreel.video.packets import blocks
from roboreel.video.probe import open_video
from roboreel.video.reader import open_packets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.video.packet_table import PacketTable


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
    step: int
    """Ticks from one image to the next."""

    @classmethod
    def of(cls, path: Path, table: PacketTable, start: int, stop: int) -> ImageSpan:
        """Return images of a file, decoded from the last keyframe that leads to the same images."""
        begin = int(table.start[table.shown[start:stop]].min())
        if begin:
            with open_packets(path, table) as packets:
                begin = last_exact_start(packets, table, begin)
        return cls(path, table, start, stop, begin, _step(path, table))

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


def restarts_at(path: Path, table: PacketTable, packet: int) -> bool:
    """Return whether a keyframe of a file may follow packets of another one."""
    if nal_units(table.coding.codec) is None:
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
    # A single packet is a keyframe, listed or not.
    return (*described, table.time_base, table.lists_keyframes or len(table.size) == 1)


def joining_key(path: Path) -> tuple[Any, ...]:
    """Return a key that is equal for video files that can be joined whole. Reads headers only."""
    try:
        table = read_packet_table(path)
    except UnsupportedVideoError:
        return (str(path),)
    key = splice_key(table) if restarts_at(path, table, 0) else None
    return key or (str(path),)


def join_videos(paths: Sequence[Path], out: Path) -> list[Fraction]:
    """Write several videos into one file, and return when each starts in it, in seconds.

    Image ``i`` of a video is then at its start plus ``i / fps``, exactly on a tick.

    Args:
        paths: What to join, in order. All must have the same encoding, size and time base.
        out: Where to write. Not created if anything fails.

    Raises:
        EncodingError: The videos differ, or one hides some of its images.
        CorruptFileError: A file has no video.
    """
    if not paths:
        raise EncodingError(f"There are no videos to join into {str(out)!r}.")
    tables = [read_packet_table(path) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        if len(table.shown) != len(table.size):
            raise EncodingError(
                "A video that shows only some of its packets cannot be joined without decoding. "
                f"Encode {str(path)!r} again."
            )
    whole = [
        ImageSpan.of(path, table, 0, len(table.shown))
        for path, table in zip(paths, tables, strict=True)
    ]
    return [int(ticks[0]) * tables[0].time_base for ticks in splice_videos(whole, out)]


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
    for span in spans:
        _check_alike(spans[0], span)
    packets = [span.needed for span in spans]
    for span, part in list(zip(spans, packets, strict=True))[1:]:
        if not restarts_at(span.path, span.table, int(part[0])):
            raise EncodingError(
                f"Image {span.start} follows a keyframe of an open GOP, which cannot come behind other "
                f"packets without encoding it again: {str(span.path)!r}."
            )
    pts, shown = _timeline(spans, packets)
    first, last = int(shown[0][0]), int(shown[0][-1])
    hidden = (first, last - first + spans[0].step) if hide else (0, 0)
    rows = IndexRows(
        size=np.concatenate([s.table.size[p] for s, p in zip(spans, packets, strict=True)]),
        pts=pts,
        keyframe=np.concatenate([s.table.keyframe[p] for s, p in zip(spans, packets, strict=True)]),
        lists_keyframes=any(span.table.lists_keyframes for span in spans),
        per_part=[len(part) for part in packets],
        step=spans[-1].step,
        hidden=hidden,
    )
    with atomic_file(out, sync=False) as temporary:
        _write(spans, packets, rows, temporary)
        ticks = [part - hidden[0] for part in shown]
        _check(temporary, rows, np.concatenate(ticks))
    return ticks


def _check_alike(first: ImageSpan, other: ImageSpan) -> None:
    """Raise unless the packets of two files can share one."""
    if splice_key(first.table) == splice_key(other.table) is not None:
        return
    ours, theirs = _described(first.table), _described(other.table)
    names = [name for name in ours if ours[name] != theirs[name]]
    shown = f" ({ours[names[0]]} and {theirs[names[0]]})" if names else ""
    raise EncodingError(
        f"Videos with a different {names[0] if names else 'codec header'}{shown} cannot share a file "
        f"without decoding: {str(first.path)!r} and {str(other.path)!r}."
    )


def _described(table: PacketTable) -> dict[str, Any]:
    coding = table.coding
    return {"codec": coding.codec, "size": coding.image_size, "time base": table.time_base}


def _step(path: Path, table: PacketTable) -> int:
    """Return how many ticks an image is shown; of a single one, its file alone knows."""
    if len(table.size) > 1:
        return max(round(table.step), 1)
    with open_video(path) as (container, stream):
        return next(container.demux(stream)).duration or 1


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


def _write(
    spans: Sequence[ImageSpan], packets: Sequence[NDArray[np.int64]], rows: IndexRows, out: Path
) -> None:
    with out.open("wb") as file:
        file.write(file_head(read_track_header(spans[0].path), rows))
        for span, part in zip(spans, packets, strict=True):
            for block in _bytes_of(span, part):
                file.write(block)


def _bytes_of(span: ImageSpan, packets: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the bytes of packets, those that lie together in one go."""
    offset = span.table.offset[packets]
    stop = offset + span.table.size[packets]
    breaks = np.flatnonzero(offset[1:] != stop[:-1]) + 1
    starts, ends = np.append(0, breaks), np.append(breaks, len(packets)) - 1
    with SpanReader(span.path, "video file") as file:
        for first, last in zip(offset[starts].tolist(), stop[ends].tolist(), strict=True):
            yield from blocks(file, first, last)


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
