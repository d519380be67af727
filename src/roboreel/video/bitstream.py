"""Packets as MP4 stores them → packets of a bare stream. Pure: bytes in, bytes out.

MP4 keeps the parameter sets in a configuration record. A stream has no such record: it repeats
them before each keyframe. FFmpeg's filters (``h264_mp4toannexb`` and so on) take three to five times
as long, and write other bytes than Rerun does: see docs/design/2026-11-rerun-export.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.varint import decode_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roboreel.video.packet_table import Coding

_START_CODE = b"\x00\x00\x00\x01"
_TEMPORAL_DELIMITER = b"\x12\x00"
_SEQUENCE_HEADER = 1
_SPS = {"h264": 7, "hevc": 33}
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
    record = _configuration(coding)
    if record is None:
        # VP9, and H.264 and HEVC that have start codes already: not MP4's form.
        return (lambda packet, _: packet) if coding.codec in ("vp9", "h264", "hevc") else None
    length_size, sets = record
    joined = b"".join(_START_CODE + item for item in sets)
    return lambda packet, keyframe: _pack_units(packet, keyframe, length_size, joined, coding.codec)


def parameter_sets(coding: Coding) -> bytes:
    """Return the parameter sets of a configuration record as the units of an MP4 file's packet.

    Empty for codecs other than H.264 and HEVC, whose keyframes bring what they need.

    Raises:
        CorruptFileError: The record is truncated.
    """
    length_size, sets = _configuration(coding) or (0, [])
    return b"".join(len(item).to_bytes(length_size, "big") + item for item in sets)


def unit_type(first: int, codec: str) -> int:
    """Return the type of a NAL unit of H.264 or HEVC, by its first byte."""
    return first & 31 if codec == "h264" else first >> 1 & 63


def _configuration(coding: Coding) -> tuple[int, list[bytes]] | None:
    """Return the size of a NAL unit's length field, and the parameter sets; None if there are none."""
    read = {"h264": _avc_record, "hevc": _hevc_record}.get(coding.codec)
    if read is None or coding.extradata[:1] != b"\x01":
        return None
    try:
        return read(coding.extradata)
    except IndexError as error:
        raise CorruptFileError(
            f"The configuration record of the {coding.codec} video is truncated."
        ) from error


def _pack_av1(packet: bytes, keyframe: bool, header: bytes) -> bytes:
    packet = packet.removeprefix(_TEMPORAL_DELIMITER)
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


def _pack_units(
    packet: bytes,
    keyframe: bool,
    length_size: int,
    sets: bytes,
    codec: str,
) -> bytes:
    parts: list[bytes] = []
    needs_sets = keyframe
    position = 0
    while position < len(packet):
        start = position + length_size
        position = start + int.from_bytes(packet[position:start], "big")
        if position > len(packet):
            raise CorruptFileError("A NAL unit is longer than the packet it is in.")
        if position > start:
            parts += (_START_CODE, packet[start:position])
            needs_sets = needs_sets and unit_type(packet[start], codec) != _SPS[codec]
    return b"".join([sets, *parts] if needs_sets else parts)


def _avc_record(record: bytes) -> tuple[int, list[bytes]]:
    """Return the size of a NAL unit's length field and the parameter sets of an ``avcC`` record."""
    sets: list[bytes] = []
    position = 5
    for mask in (31, 255):  # sequence parameter sets, then picture parameter sets
        count = record[position] & mask
        position = _read_sets(record, position + 1, count, sets)
    return (record[4] & 3) + 1, sets


def _hevc_record(record: bytes) -> tuple[int, list[bytes]]:
    """Return the size of a NAL unit's length field and the parameter sets of an ``hvcC`` record."""
    sets: list[bytes] = []
    position = 23
    for _ in range(record[22]):
        kind, count = record[position] & 63, record[position + 1] << 8 | record[position + 2]
        found: list[bytes] = []
        position = _read_sets(record, position + 3, count, found)
        # x265 also stores two kilobytes of its settings here, which no decoder needs.
        sets += found if kind in _HEVC_SETS else []
    return (record[21] & 3) + 1, sets


def _read_sets(record: bytes, position: int, count: int, sets: list[bytes]) -> int:
    for _ in range(count):
        length = record[position] << 8 | record[position + 1]
        position += 2
        if position + length > len(record):
            raise IndexError
        sets.append(record[position : position + length])
        position += length
    return position
