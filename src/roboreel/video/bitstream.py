"""Packets as MP4 stores them → packets of a bare stream. Pure: bytes in, bytes out.

MP4 keeps the parameter sets in a configuration record. A stream has no such record: it repeats
them before each keyframe. FFmpeg's filters (``h264_mp4toannexb`` and so on) take three to five times
as long, and write other bytes than Rerun does: see docs/design/2026-11-rerun-export.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.varint import decode_varint
from roboreel.video.codecs import nal_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roboreel.video.packet_table import Coding

_START_CODE = b"\x00\x00\x00\x01"
TEMPORAL_DELIMITER = b"\x12\x00"
_SEQUENCE_HEADER = 1
_HEVC_SETS = (32, 33, 34)  # video, sequence and picture parameter sets


def stream_packer(coding: Coding) -> Callable[[bytes, bool], bytes] | None:
    """Return the function that turns an MP4 file's packet into a stream's packet.

    It takes a packet and whether that is a keyframe. None for codecs other than AV1, VP9, H.264
    and HEVC.

    Raises:
        CorruptFileError: The codec's configuration record is truncated.
    """
    if coding.codec == "av1":
        header = coding.extradata[4:]  # av1C is four bytes, then the sequence header.
        return lambda packet, keyframe: _pack_av1(packet, keyframe, header)
    nal, length_bytes = nal_units(coding.codec), length_bytes_of(coding)
    if nal is None or length_bytes is None:
        # VP9, and H.264 and HEVC that have start codes already: not MP4's form.
        return None if nal is None and coding.codec != "vp9" else lambda packet, _: packet
    joined = b"".join(_START_CODE + item for item in _stored_sets(coding))

    def pack(packet: bytes, keyframe: bool) -> bytes:
        parts: list[bytes] = []
        needs_sets = keyframe
        for start, stop in units(packet, length_bytes):
            if stop > len(packet):
                raise CorruptFileError("A NAL unit is longer than the packet it is in.")
            if stop > start:
                parts += (_START_CODE, packet[start:stop])
                needs_sets = needs_sets and nal.type_of(packet[start]) != nal.sequence_set
        return b"".join([joined, *parts] if needs_sets else parts)

    return pack


def parameter_sets(coding: Coding) -> bytes:
    """Return the parameter sets of a configuration record as the units of an MP4 file's packet.

    Empty for codecs other than H.264 and HEVC, whose keyframes bring what they need.

    Raises:
        CorruptFileError: The record is truncated.
    """
    length_bytes = length_bytes_of(coding)
    if length_bytes is None:
        return b""
    return b"".join(len(item).to_bytes(length_bytes, "big") + item for item in _stored_sets(coding))


def length_bytes_of(coding: Coding) -> int | None:
    """Return how many bytes the length before each NAL unit takes; None if there is no length."""
    nal, record = nal_units(coding.codec), coding.extradata
    # A configuration record starts with 1. Anything else is a stream with start codes.
    if nal is None or len(record) <= nal.sets_at or record[0] != 1:
        return None
    return (record[nal.length_at] & 3) + 1


def units(data: bytes | memoryview, length_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield where each NAL unit of a packet begins and ends; the last may end behind the packet."""
    at, size_bytes = 0, len(data)
    while at < size_bytes:
        start = at + length_bytes
        at = start + int.from_bytes(data[at:start], "big")
        yield start, at


def _pack_av1(packet: bytes, keyframe: bool, header: bytes) -> bytes:
    packet = packet.removeprefix(TEMPORAL_DELIMITER)
    if not keyframe or any(kind == _SEQUENCE_HEADER for kind, _ in obus(packet)):
        return packet
    return header + packet


def obus(packet: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Yield the type of each OBU of an AV1 packet, and where its content begins."""
    position = 0
    while position < len(packet):
        head = packet[position]
        position += 2 if head & 4 else 1
        if not head & 2:  # No length: it extends to the end.
            yield head >> 3 & 15, position
            return
        try:
            length, position = decode_varint(packet, position)
        except (IndexError, CorruptFileError):
            return  # What follows cannot be found; the decoder reports the damage.
        yield head >> 3 & 15, position
        position += length


def _stored_sets(coding: Coding) -> list[bytes]:
    """Return the parameter sets of a configuration record, ``avcC`` or ``hvcC``."""
    read = _avc_sets if coding.codec == "h264" else _hevc_sets
    try:
        return list(read(coding.extradata))
    except IndexError as error:
        raise CorruptFileError(
            f"The configuration record of the {coding.codec} video is truncated."
        ) from error


def _avc_sets(record: bytes) -> Iterator[bytes]:
    position = 5
    for mask in (31, 255):  # sequence parameter sets, then picture parameter sets
        sets, position = _read_sets(record, position + 1, record[position] & mask)
        yield from sets


def _hevc_sets(record: bytes) -> Iterator[bytes]:
    position = 23
    for _ in range(record[22]):
        kind, count = record[position] & 63, record[position + 1] << 8 | record[position + 2]
        sets, position = _read_sets(record, position + 3, count)
        # x265 also stores two kilobytes of its settings here, which no decoder needs.
        yield from sets if kind in _HEVC_SETS else ()


def _read_sets(record: bytes, position: int, count: int) -> tuple[list[bytes], int]:
    sets = []
    for _ in range(count):
        length = record[position] << 8 | record[position + 1]
        position += 2
        if position + length > len(record):
            raise IndexError
        sets.append(record[position : position + length])
        position += length
    return sets, position
