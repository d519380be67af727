"""Packets of H.264, HEVC and AV1 as cameras send them: where decoding starts, and how large images are."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import av

from roboreel.errors import SourceError
from roboreel.video.bitstream import obus
from roboreel.video.codecs import STREAMED, codec_name, decoder_name
from roboreel.video.exact_start import between_start_codes, golomb_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

_IDR, _H264_SETS = 5, frozenset((7, 8))
_HEVC_KEYS, _HEVC_SETS = frozenset(range(16, 22)), frozenset((32, 33, 34))
_SEQUENCE_HEADER = 1
_LARGEST_SIDE = 16384


def codec_of(text: str) -> str | None:
    """Return the codec that a message names: ``h264``, ``hevc`` or ``av1``; None for others.

    ffmpeg_image_transport writes ``codec;pixel format;…``, and older versions the encoder's name.
    """
    codec = codec_name(text.partition(";")[0].strip())
    return codec if codec in STREAMED else None


class PacketWatch:
    """What is found out about the packets of a stream while they pass by, in their order.

    Args:
        codec: ``h264``, ``hevc`` or ``av1``.
    """

    def __init__(self, codec: str) -> None:
        self.codec = codec
        self.keys = bytearray()
        """For each packet, whether decoding can start there."""
        self.problem: str | None = None
        """Why the packets cannot be copied as they are, in words that follow the topic's name."""
        self._sets: bytes = b""
        self.added_sets: dict[int, bytes] = {}
        """Parameter sets that stood in earlier packets only, by the keyframe that needs them."""

    def add(self, packet: bytes) -> None:
        """Look at the next packet."""
        if self.codec == "av1":
            self.keys.append(any(kind == _SEQUENCE_HEADER for kind, _ in obus(packet)))
            return
        units = list(_units(packet))
        if not units:
            self.problem = self.problem or (
                f"its {self.codec} packets have no start codes (Annex B), so they cannot be copied"
            )
        kinds = [self._kind(packet[start]) for start, _ in units]
        if self.codec == "h264" and any(
            kind in (1, 5) and _is_b_slice(packet[start : start + 8])
            for kind, (start, _) in zip(kinds, units, strict=True)
        ):
            self.problem = self.problem or (
                "its h264 packets have B-frames, whose images are shown in another order"
            )
        self._note_key(packet, units, kinds)

    def _kind(self, first: int) -> int:
        return first & 31 if self.codec == "h264" else first >> 1 & 63

    def _note_key(self, packet: bytes, units: list[tuple[int, int]], kinds: list[int]) -> None:
        is_h264 = self.codec == "h264"
        wanted = _H264_SETS if is_h264 else _HEVC_SETS
        is_key = _IDR in kinds if is_h264 else any(kind in _HEVC_KEYS for kind in kinds)
        sets = b"".join(
            b"\x00\x00\x00\x01" + packet[start:stop]
            for kind, (start, stop) in zip(kinds, units, strict=True)
            if kind in wanted
        )
        if wanted <= set(kinds):
            self._sets = sets
        elif sets:
            self._sets += sets
        elif is_key and self._sets:
            self.added_sets[len(self.keys)] = self._sets
        self.keys.append(is_key and bool(self._sets))


def _units(packet: bytes) -> list[tuple[int, int]]:
    """Return where the NAL units of a packet with start codes begin and end."""
    at = packet.find(b"\x00\x00\x01")
    if at not in (0, 1) or (at == 1 and packet[0]):
        return []
    # A start code may have a fourth byte in front, which is no part of the unit before it.
    return [
        (start, stop - 1 if stop < len(packet) and packet[stop - 1] == 0 else stop)
        for start, stop in between_start_codes(packet)
        if start < len(packet)
    ]


def _is_b_slice(unit: bytes) -> bool:
    """Return whether an H.264 slice is bidirectional, from the first numbers of its header."""
    # first_mb_in_slice, then slice_type
    return any(kind % 5 == 1 for kind in islice(golomb_numbers(unit[1:]), 1, 2))


def packet_size(packets: Iterable[bytes], codec: str) -> tuple[int, int] | None:
    """Return height and width of the first image that packets decode to; None if there is none.

    Raises:
        SourceError: The packets are not of this codec.
    """
    decoder = av.CodecContext.create(decoder_name(codec), "r")
    try:
        for packet in packets:
            for image in decoder.decode(av.Packet(packet)):
                return _plausible(image.height, image.width)
        for image in decoder.decode(None):
            return _plausible(image.height, image.width)
    except av.FFmpegError as error:
        raise SourceError(f"its packets are not {codec}: {error.strerror}.") from error
    return None


def _plausible(height: int, width: int) -> tuple[int, int]:
    if not (0 < height <= _LARGEST_SIDE and 0 < width <= _LARGEST_SIDE):
        raise SourceError(f"its images would have {width} x {height} pixels.")
    return height, width
