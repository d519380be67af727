"""Whether decoding a video can begin at what its file calls a keyframe.

In H.264 an IDR image cuts all ties to the images before it. Files also mark others as keyframes, by
what their recovery point says: in an open GOP an image without references, which is right at once;
with gradual refresh an image like any other, after which a part of each picture is made anew until
all of it is. Decoders then believe the stream, which is often wrong about when that is. And a file
that lists no keyframes says by it that every packet is one, which may not be so, whatever the
codec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.video.bitstream import length_bytes_of, units
from roboreel.video.nal import keyframe_test

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.video.packet_table import Coding, PacketTable
    from roboreel.video.packets import PacketReader

_SLICES = (1, 2)  # Whole, and the first partition of one.
_IDR, _SEI = 5, 6
_RECOVERY_POINT = 6
_INTRA = (2, 4)  # I and SI
_START_CODE = b"\x00\x00\x01"
_MPEG4_IMAGE = b"\x00\x00\x01\xb6"  # Two bits follow that say its kind; 0 needs no other image.
# So much of a NAL unit is looked at; for two numbers at most so much.
_HEAD_BYTES = 2**16
_NUMBERS_BYTES = 20
_MOST_KNOWN = 2**14


def begins_exactly(data: memoryview, coding: Coding) -> bool:
    """Return whether a decode that begins at a keyframe gives the images of one from the start.

    Not if its image refers to others, or if the stream says that images are right only later. What
    cannot be parsed says nothing. True for codecs other than H.264.
    """
    if coding.codec != "h264":
        return True
    units = [(unit[0] & 31, unit) for unit in _unit_heads(data, length_bytes_of(coding))]
    if any(kind == _IDR for kind, _ in units):
        return True
    if any(kind == _SEI and _recovers_later(unit) for kind, unit in units):
        return False
    return _is_intra([unit for kind, unit in units if kind in _SLICES])


def begins_with(data: memoryview, table: PacketTable) -> bool:
    """Return whether decoding can begin at a packet that a file's table calls a keyframe."""
    if not table.lists_keyframes:
        is_mpeg4 = table.coding.codec == "mpeg4"
        is_keyframe = _is_mpeg4_keyframe if is_mpeg4 else keyframe_test(table.coding)
        if is_keyframe is not None and not is_keyframe(data):
            return False
    return begins_exactly(data, table.coding)


def begins_at(reader: PacketReader, table: PacketTable, keyframe: int) -> bool:
    """Return whether decoding can begin at a keyframe of a file; at its first packet, it must."""
    if keyframe == 0 or (table.coding.codec != "h264" and table.lists_keyframes):
        return True
    _, data = next(iter(reader.read(keyframe, keyframe + 1)))
    return begins_with(data, table)


def last_exact_start(reader: PacketReader, table: PacketTable, keyframe: int) -> int:
    """Return the last keyframe at which decoding can begin: this one, or one before it."""
    return ExactStarts().find(reader, table, keyframe)


class ExactStarts:
    """Where to begin in place of keyframes at which decoding cannot, as far as it was found out."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, table: PacketTable, keyframe: int) -> int:
        """Return where to begin as far as it is known: else at the keyframe itself."""
        return self._known.get((table.serial, keyframe), keyframe)

    def find(self, reader: PacketReader, table: PacketTable, keyframe: int) -> int:
        """Return the last keyframe at which decoding can begin: this one, or one before it."""
        passed = []
        for candidate in np.flatnonzero(table.keyframe[: keyframe + 1])[::-1].tolist():
            start = self.get(table, candidate)
            if start != candidate or begins_at(reader, table, candidate):
                break
            passed.append((table.serial, candidate))
        else:
            start = 0  # Of a video that begins with no keyframe, there is nothing before it.
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known.update(dict.fromkeys(passed, start))
        return start


def _is_mpeg4_keyframe(data: memoryview) -> bool:
    at = bytes(data).find(_MPEG4_IMAGE) + len(_MPEG4_IMAGE)
    return len(_MPEG4_IMAGE) <= at < len(data) and data[at] >> 6 == 0


def _unit_heads(data: memoryview, length_bytes: int | None) -> Iterator[bytes]:
    """Yield the first bytes of each NAL unit of a packet, without those that escape start codes."""
    spans = between_start_codes(data) if length_bytes is None else units(data, length_bytes)
    for start, stop in spans:
        head = bytes(data[start : min(stop, start + _HEAD_BYTES)])
        if head:
            yield head.replace(b"\x00\x00\x03", b"\x00\x00")


def between_start_codes(data: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Yield where the NAL units of a packet with start codes begin and end."""
    packet = bytes(data)
    at = packet.find(_START_CODE)
    while at >= 0:
        start = at + len(_START_CODE)
        at = packet.find(_START_CODE, start)
        yield start, len(packet) if at < 0 else at


def _recovers_later(sei: bytes) -> bool:
    """Return whether a unit of messages has a recovery point that lies behind its own image."""
    at = 1
    while True:
        kind, at = _message_number(sei, at)
        size, at = _message_number(sei, at)
        if at >= len(sei):
            return False
        if kind == _RECOVERY_POINT:
            return next(golomb_numbers(sei[at : at + min(size, _NUMBERS_BYTES)]), 0) > 0
        at += size


def _message_number(sei: bytes, at: int) -> tuple[int, int]:
    """Return the type or size of a message, and where it ends: 255 for each byte that is 255."""
    start = at
    while at < len(sei) and sei[at] == 255:
        at += 1
    last = sei[at] if at < len(sei) else 0
    return 255 * (at - start) + last, at + 1


def _is_intra(slices: list[bytes]) -> bool:
    """Return whether no slice of an image refers to another image.

    The second of two fields may refer to the first. It begins anew at the first macroblock.
    """
    for position, unit in enumerate(slices):
        numbers = golomb_numbers(unit[1 : 1 + _NUMBERS_BYTES])
        first_macroblock, kind = next(numbers, None), next(numbers, None)
        if position and first_macroblock == 0:
            break
        if kind is None or kind % 5 not in _INTRA:
            return False
    return True


def golomb_numbers(data: bytes) -> Iterator[int]:
    """Yield the numbers in Exp-Golomb code that bytes begin with.

    Examples:
        >>> list(golomb_numbers(bytes([0b1_010_011_0, 0b0100_0000])))
        [0, 1, 2, 3]
    """
    bits = f"{int.from_bytes(data, 'big'):0{8 * len(data)}b}"
    at, one = 0, bits.find("1")
    while one >= 0:
        stop = 2 * one - at + 1
        if stop > len(bits):
            return
        yield int(bits[one:stop], 2) - 1
        at, one = stop, bits.find("1", stop)
