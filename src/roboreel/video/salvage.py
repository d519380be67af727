"""What there is of a fragmented video file: all of it, or what a crash left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError, UnsupportedVideoError
from roboreel.io.reading import SpanReader
from roboreel.video import boxes
from roboreel.video.fragments import walk_fragments
from roboreel.video.mp4 import MAX_PACKETS, fragmented_track, read_packet_table
from roboreel.video.packet_table import join_columns
from roboreel.video.packets import blocks
from roboreel.video.splice import ImageSpan, splice_videos

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.video.packet_table import PacketColumns

# No codec writes as many zeros in a row: H.264 and HEVC never more than three, and in AV1 each
# further byte is as unlikely as any other. After a power cut, what was not written reads as zeros.
_HOLE = bytes(32)


def whole_fragments(path: Path, out: Path) -> int:
    """Copy a fragmented file up to its last whole fragment, and return how many images it has.

    A fragment is whole if its header lists packets that follow those before, if they fill its data
    exactly, and if no part of the data was left unwritten.

    Args:
        path: The file that was being written when the process died, or the power failed.
        out: Where to write. Not created if there is no whole fragment.
    """
    with SpanReader(path, "video file") as source:
        stop, count = _end_of_fragments(source)
        if stop:
            with out.open("wb") as target:
                target.writelines(blocks(source, 0, stop))
    return count


def count_images(path: Path) -> int:
    """Return how many images a fragmented file has, by its boxes alone: no image data is read."""
    with SpanReader(path, "video file") as source:
        return _end_of_fragments(source, look_at_data=False)[1]


def first_images(path: Path, count: int, out: Path) -> None:
    """Copy the first images of a video file to a new file, without decoding them."""
    splice_videos([ImageSpan.of(path, read_packet_table(path), 0, count)], out)


def _end_of_fragments(file: SpanReader, *, look_at_data: bool = True) -> tuple[int, int]:
    """Return where the last whole fragment ends, and how many images there are up to there."""
    end, count, last = 0, 0, -1
    listed: PacketColumns | None = None
    # What follows the first damage cannot be used, whatever it is.
    with suppress(CorruptFileError, UnsupportedVideoError):
        # A recording of many hours has more boxes than are accepted in files of unknown origin.
        found = boxes.file_boxes(file, limit=file.size_bytes)
        for box, runs in walk_fragments(found, file, *fragmented_track(file), MAX_PACKETS):
            if runs:
                listed = join_columns(runs)
            elif box.kind == b"mdat":
                if listed is None or not _fits(box, listed, last):
                    break
                if look_at_data and not _is_written(file, box, listed):
                    break
                end, count = box.stop, count + len(listed.size)
                last, listed = int(listed.dts[-1]), None
    return end, count


def _fits(box: boxes.FileBox, packets: PacketColumns, last: int) -> bool:
    """Whether a data box has room for just the packets of its fragment, which follow tick ``last``."""
    return (
        box.is_whole
        and len(packets.size) > 0
        and bool((packets.size > 0).all())
        and bool((np.diff(packets.dts, prepend=last) > 0).all())
        and int(packets.offset[0]) == box.body
        and int(packets.offset[-1] + packets.size[-1]) == box.stop
    )


def _is_written(file: SpanReader, box: boxes.FileBox, packets: PacketColumns) -> bool:
    """Whether a data box holds its packets, and no part of it is still empty."""
    data = file.read(box.body, box.stop)
    stops = packets.offset + packets.size
    # The last byte of a packet has a stop bit, in every codec that we write.
    ended = all(data[int(stop) - box.body - 1] for stop in stops)
    return ended and _HOLE not in data
