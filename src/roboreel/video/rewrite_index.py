"""The index of an MP4 file written anew: before the images, and with its keyframes.

Only the ``moov`` box changes, in two places: a table of keyframes is added where there is none, and
the offsets of packets follow the packets. All else is copied byte by byte: packets, times, edit
lists, other tracks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError, UnsupportedVideoError
from roboreel.files import atomic_file
from roboreel.io.reading import SpanReader
from roboreel.video import boxes
from roboreel.video.index_writer import box, keyframe_table
from roboreel.video.keyframes import find_keyframes
from roboreel.video.mp4 import handler, read_packet_table
from roboreel.video.packets import FilePackets, blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.video.boxes import FileBox
    from roboreel.video.packet_table import PacketTable

    Move = Callable[[NDArray[np.int64]], NDArray[np.int64]]

_CONTAINERS = (b"trak", b"mdia", b"minf", b"stbl")
_OFFSETS = {b"stco": ">u4", b"co64": ">u8"}
# These hold offsets of the file too, or list packets elsewhere.
_REFUSED = (b"moof", b"sidx", b"mfra", b"meta")
_HIGHEST_SHORT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class IndexChange:
    """What differs between a file and the one that `rewrite_index` wrote."""

    moved: bool
    """Whether the index is now before the images, and was not."""
    keyframes_listed: bool
    """Whether the keyframes are now listed, and were not."""


def rewrite_index(path: Path, target: Path) -> IndexChange:
    """Write a video file whose index comes first and lists the keyframes; nothing is decoded.

    The packets are compared with those of the source before the file is moved into place. If all
    packets are keyframes, none are listed, as the standard says.

    Args:
        path: An MP4 file with H.264, HEVC, AV1 or VP9.
        target: The file to write.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: The file is damaged.
        UnsupportedVideoError: The file is fragmented, or of a kind whose offsets we do not know.
    """
    table = read_packet_table(path)
    keyframes = None if table.lists_keyframes else find_keyframes(path, table)
    if not table.lists_keyframes and keyframes is None:
        raise UnsupportedVideoError(
            f"The keyframes of {table.coding.codec} without a codec header cannot be told from its "
            f"packets. Encode the video again: {str(path)!r}."
        )
    lists = keyframes is not None and not keyframes.all()
    with atomic_file(target) as temporary:
        with SpanReader(path, "video file") as source, temporary.open("wb") as out:
            for piece in _pieces(source, keyframes if lists else None):
                out.write(piece)
        _check_equal(path, table, temporary)
    return IndexChange(moved=table.index_at_end, keyframes_listed=lists)


def _pieces(source: SpanReader, keyframes: NDArray[np.bool_] | None) -> Iterator[bytes]:
    """Yield the bytes of the new file, in order."""
    found = list(boxes.file_boxes(source))
    kinds = [item.kind for item in found]
    refused = [kind.decode() for kind in _REFUSED if kind in kinds]
    if refused or kinds.count(b"moov") != 1:
        raise UnsupportedVideoError(
            f"The index cannot be moved in a file with {', '.join(refused) or 'several indexes'}: "
            f"{str(source.path)!r}."
        )
    old = found[kinds.index(b"moov")]
    begin = next(item.start for item in found if item.kind in (b"moov", b"mdat"))
    yield from blocks(source, 0, begin)
    yield _index(source, old, begin, keyframes)
    yield from blocks(source, begin, old.start)
    yield from blocks(source, old.stop, source.size_bytes)


def _index(
    source: SpanReader, old: FileBox, begin: int, keyframes: NDArray[np.bool_] | None
) -> bytes:
    """Return the new ``moov`` box, to be written where the packets began."""
    content = memoryview(source.read(old.body, old.stop))
    # Written once to learn its size, which the offsets do not change: all get 64 bits or none.
    largest = source.size_bytes + len(content) + 8 * (0 if keyframes is None else len(keyframes))
    wide = largest > _HIGHEST_SHORT
    new_bytes = len(_moov(content, keyframes, lambda offsets: offsets, wide=wide))

    def moved(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        grown: NDArray[np.int64] = offsets + (offsets >= begin) * new_bytes
        return grown - (offsets >= old.stop) * (old.stop - old.start)

    return _moov(content, keyframes, moved, wide=wide)


def _moov(
    content: memoryview, keyframes: NDArray[np.bool_] | None, move: Move, *, wide: bool
) -> bytes:
    """Return the index with its offsets moved, and with the keyframes of the first video."""
    parts = []
    for child in boxes.children(content):
        is_video = child.kind == b"trak" and handler(boxes.Inside(child.data)) == b"vide"
        parts.append(_changed(*child, keyframes if is_video else None, move, wide))
        keyframes = None if is_video else keyframes
    return box(b"moov", *parts)


def _changed(
    kind: bytes, data: memoryview, keyframes: NDArray[np.bool_] | None, move: Move, wide: bool
) -> bytes:
    if kind == b"saio":
        raise UnsupportedVideoError("The index of an encrypted video cannot be moved.")
    if kind in _OFFSETS:
        offsets = boxes.array(data, _OFFSETS[kind], 8, boxes.number(data, "I", 4))
        kind = b"co64" if wide else kind
        return box(kind, data[:8], move(offsets.astype(np.int64)).astype(_OFFSETS[kind]).tobytes())
    if kind not in _CONTAINERS:
        return box(kind, data)
    parts = [_changed(*child, keyframes, move, wide) for child in boxes.children(data)]
    if kind == b"stbl" and keyframes is not None:
        parts.append(keyframe_table(keyframes))
    return box(kind, *parts)


def _check_equal(path: Path, table: PacketTable, written: Path) -> None:
    """Raise unless two files have the same packets at the same times."""
    other = read_packet_table(written)
    same = table.coding == other.coding and table.time_base == other.time_base
    for name in ("size", "dts", "pts", "shown", "ticks"):
        same = same and np.array_equal(getattr(table, name), getattr(other, name))
    if same:
        with FilePackets(path, table) as old, FilePackets(written, other) as new:
            count = len(table.size)
            pairs = zip(old.read(0, count), new.read(0, count), strict=True)
            same = all(ours[1] == theirs[1] for ours, theirs in pairs)
    if not same or other.index_at_end:
        raise CorruptFileError(
            f"The video would not be the same with a new index. It is left as it is: {str(path)!r}."
        )
