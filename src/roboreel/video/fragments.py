"""The packets that the fragments of an MP4 file list, in ``moof`` boxes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.video import boxes
from roboreel.video.packet_table import MAX_TICK, PacketColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from roboreel.io.reading import SpanReader

# Which optional fields follow, in tfhd and in trun (ISO/IEC 14496-12, 8.8.7 and 8.8.8).
_HAS_BASE, _HAS_DESCRIPTION, _HAS_DURATION, _HAS_SIZE, _HAS_FLAGS = 0x1, 0x2, 0x8, 0x10, 0x20
_BASE_IS_MOOF = 0x20000
_RUN_HAS_OFFSET, _RUN_HAS_FIRST_FLAGS = 0x1, 0x4
_RUN_FIELDS = (0x100, 0x200, 0x400, 0x800)
# Flags of a packet: it depends on others, or is not a sync sample, ISO's word for a keyframe.
_NOT_KEYFRAME = 0x0101_0000


@dataclass(frozen=True, slots=True)
class _Defaults:
    """Defaults for the packets of a fragment, and where the next packet is."""

    duration: int
    size: int
    flags: int
    base: int = 0
    """What the offsets of this fragment are relative to."""
    position: int = 0
    dts: int = 0


def read_fragments(
    file: SpanReader, track_id: int, defaults: memoryview, max_packets: int
) -> list[PacketColumns]:
    """Return the packets of one track in all fragments of a file, run by run.

    Args:
        file: The file.
        track_id: The track's ID.
        defaults: Content of the track's ``trex`` box.
        max_packets: Refuse a file with more packets.
    """
    listed = walk_fragments(boxes.file_boxes(file), file, track_id, defaults, max_packets)
    return [run for _, runs in listed for run in runs]


def walk_fragments(
    file_boxes: Iterable[boxes.FileBox],
    file: SpanReader,
    track_id: int,
    defaults: memoryview,
    max_packets: int,
) -> Iterator[tuple[boxes.FileBox, list[PacketColumns]]]:
    """Yield the boxes of a file, each with the packets that it lists of one track.

    Args:
        file_boxes: The outermost boxes of the file.
        file: The file.
        track_id: The track's ID.
        defaults: Content of the track's ``trex`` box.
        max_packets: Refuse a file with more packets.

    Raises:
        CorruptFileError: A box is damaged, or there are too many packets.
    """
    state = _Defaults(*(boxes.number(defaults, "I", at) for at in (12, 16, 20)))
    count = 0
    for box in file_boxes:
        runs: list[PacketColumns] = []
        if box.kind == b"moof":
            data = memoryview(file.read(box.body, box.stop))
            position = box.start
            for kind, content in boxes.children(data):
                if kind != b"traf":
                    continue
                fragment = boxes.Inside(content)
                header = fragment.require(b"tfhd")
                if boxes.number(header, "I", 4) != track_id:
                    continue
                current = _open_fragment(fragment, header, state, box.start, position)
                found, after = _fragment_runs(fragment, current, max_packets - count)
                runs += found
                count += sum(len(run.size) for run in found)
                state, position = replace(state, dts=after.dts), after.position
        yield box, runs


def _open_fragment(
    fragment: boxes.Inside, header: memoryview, state: _Defaults, start: int, position: int
) -> _Defaults:
    """Return the defaults at the start of a ``traf`` box."""
    flags, at = boxes.number(header, "I", 0), 8
    base = position
    if flags & _HAS_BASE:
        base, at = boxes.number(header, "Q", at), at + 8
    elif flags & _BASE_IS_MOOF:
        base = start
    if flags & _HAS_DESCRIPTION:
        at += 4
    values = {}
    for bit, name in ((_HAS_DURATION, "duration"), (_HAS_SIZE, "size"), (_HAS_FLAGS, "flags")):
        if flags & bit:
            values[name], at = boxes.number(header, "I", at), at + 4
    time = fragment.find(b"tfdt")
    if time is not None:
        values["dts"] = boxes.number(time, "Q" if boxes.number(time, "B", 0) else "I", 4)
    if max(base, values.get("dts", 0)) > MAX_TICK:
        raise CorruptFileError("A fragment has an out-of-range offset or time.")
    return replace(state, base=base, position=base, **values)


def _fragment_runs(
    fragment: boxes.Inside, current: _Defaults, room: int
) -> tuple[list[PacketColumns], _Defaults]:
    """Return the packets of each ``trun`` box, and the defaults after the last."""
    runs = []
    for kind, data in boxes.children(fragment.data):
        if kind == b"trun":
            run, current = _run(data, current, room)
            room -= len(run.size)
            runs.append(run)
    return runs, current


def _run(data: memoryview, current: _Defaults, room: int) -> tuple[PacketColumns, _Defaults]:
    flags, count, at = boxes.number(data, "I", 0), boxes.number(data, "I", 4), 8
    if count > room:
        raise CorruptFileError(
            f"A fragment declares {count:,} packets, more than the file can hold."
        )
    position = current.position
    if flags & _RUN_HAS_OFFSET:
        position, at = current.base + boxes.number(data, "i", at), at + 4
    first_flags = None
    if flags & _RUN_HAS_FIRST_FLAGS:
        first_flags, at = boxes.number(data, "I", at), at + 4
    duration, size, packet_flags, shift = _fields(data, at, flags, count, current)
    if first_flags is not None and count:
        packet_flags = packet_flags.copy()
        packet_flags[0] = first_flags
    decoding = current.dts + np.cumsum(duration) - duration
    packets = PacketColumns(
        offset=position + np.cumsum(size) - size,
        size=size,
        dts=decoding,
        pts=decoding + shift.astype(np.uint32).view(np.int32),
        keyframe=(packet_flags & _NOT_KEYFRAME) == 0,
    )
    dts = current.dts + int(duration.sum())
    return packets, replace(current, position=position + int(size.sum()), dts=dts)


def _fields(
    data: memoryview, at: int, flags: int, count: int, current: _Defaults
) -> list[NDArray[Any]]:
    """Return duration, size, flags and shift of each packet, or the defaults."""
    present = [bool(flags & bit) for bit in _RUN_FIELDS]
    stored = boxes.array(data, ">u4", at, count * sum(present)).reshape(count, sum(present))
    columns = iter(stored.astype(np.int64).T)
    defaults = (current.duration, current.size, current.flags, 0)
    return [
        next(columns) if there else np.full(count, default, dtype=np.int64)
        for there, default in zip(present, defaults, strict=True)
    ]
