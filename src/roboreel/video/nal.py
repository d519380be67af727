"""What packets say of themselves: keyframes, and packets that no other image needs.

A packet of H.264 or HEVC consists of NAL units. In MP4 and Matroska, each is preceded by its length.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roboreel.video.bitstream import obus, unit_type

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from roboreel.video.packet_table import Coding


_AV1_FRAME_HEADERS = (3, 6)
_H264_KEYFRAMES = (5,)  # IDR
_HEVC_KEYFRAMES = range(16, 22)  # BLA, IDR and CRA
_HEVC_RESTARTS = range(16, 21)  # BLA and IDR, but not CRA


def disposable_test(coding: Coding) -> Callable[[memoryview], bool] | None:
    """Return a function that says whether a packet can be skipped unless its image is wanted.

    No other image depends on such a packet; encoders with B-frames make up to half of them so.
    None for codecs and streams where the first bytes cannot tell.
    """
    length_bytes = length_bytes_of(coding)
    if length_bytes is None:
        return None
    if coding.codec == "h264":
        return partial(_is_disposable_h264, length_bytes=length_bytes)
    # HEVC only with a single temporal layer: images of a higher one may depend on the packet.
    is_single_layer = (coding.extradata[21] >> 3) & 7 == 1
    return partial(_is_disposable_hevc, length_bytes=length_bytes) if is_single_layer else None


def keyframe_test(coding: Coding) -> Callable[[memoryview], bool] | None:
    """Return a function that says whether decoding can start at a packet.

    In H.264 only an IDR image counts: an I-frame before which decoding may not start looks the same.
    None for codecs and streams where the first bytes cannot tell.
    """
    if coding.codec == "av1":
        return _is_av1_keyframe
    if coding.codec == "vp9":
        return _is_vp9_keyframe
    if length_bytes_of(coding) is None:
        return None
    keyframes = _H264_KEYFRAMES if coding.codec == "h264" else _HEVC_KEYFRAMES
    return partial(_has_unit, coding=coding, wanted=keyframes)


def _is_av1_keyframe(data: memoryview) -> bool:
    for kind, content in obus(data):
        if kind in _AV1_FRAME_HEADERS and content < len(data):
            # show_existing_frame, then two bits of frame_type: 0 is a keyframe.
            return data[content] >> 5 == 0
    return False


def _is_vp9_keyframe(data: memoryview) -> bool:
    if not len(data):
        return False
    head = data[0]
    # Two bits of marker, two of profile (a third one in profile 3), show_existing_frame, frame_type.
    shift = 1 if head >> 4 & 3 == 3 else 2
    return head >> shift & 3 == 0


def refreshes_all(data: memoryview, coding: Coding) -> bool:
    """Return whether nothing after a keyframe refers to anything before it.

    In H.264, images after the keyframe of an open GOP look right without the packets before it, but
    may tell the decoder to drop references to them, which a strict decoder reports as missing.
    """
    return coding.codec != "h264" or _has_unit(data, coding, _H264_KEYFRAMES)


def restarts(data: memoryview, coding: Coding) -> bool:
    """Return whether a keyframe counts images anew, so that it may follow packets of another video.

    H.264 and HEVC order images by a count that only some keyframes set back. Behind foreign packets,
    others are shown too early or not at all.
    """
    wanted = {"h264": _H264_KEYFRAMES, "hevc": _HEVC_RESTARTS}.get(coding.codec)
    return wanted is None or _has_unit(data, coding, wanted)


def _has_unit(data: memoryview, coding: Coding, wanted: Container[int]) -> bool:
    """Return whether a packet has a NAL unit of one of some types; no, where there is no length."""
    length_bytes = length_bytes_of(coding)
    if length_bytes is None:
        return False
    firsts = first_bytes(data, length_bytes)
    return any(unit_type(first, coding.codec) in wanted for first in firsts)


def length_bytes_of(coding: Coding) -> int | None:
    """Return how many bytes the length before each NAL unit takes; None if there is no length."""
    record = coding.extradata
    # A configuration record starts with 1. Anything else is a stream with start codes.
    if coding.codec == "h264" and len(record) > 6 and record[0] == 1:
        return (record[4] & 3) + 1
    if coding.codec == "hevc" and len(record) > 22 and record[0] == 1:
        return (record[21] & 3) + 1
    return None


def _is_disposable_h264(data: memoryview, length_bytes: int) -> bool:
    slices = [first for first in first_bytes(data, length_bytes) if first & 31 in (1, 2, 3, 4, 5)]
    # nal_ref_idc of 0: not used for reference.
    return bool(slices) and not any(first & 0x60 for first in slices)


def _is_disposable_hevc(data: memoryview, length_bytes: int) -> bool:
    kinds = [(first >> 1) & 63 for first in first_bytes(data, length_bytes)]
    slices = [kind for kind in kinds if kind < 32]
    # The even types up to 14 are sub-layer non-reference images.
    return bool(slices) and all(kind <= 14 and kind % 2 == 0 for kind in slices)


def first_bytes(data: memoryview, length_bytes: int) -> Iterator[int]:
    """Yield the first byte of each NAL unit of a packet."""
    at = 0
    while at + length_bytes < len(data):
        yield data[at + length_bytes]
        at += length_bytes + int.from_bytes(data[at : at + length_bytes], "big")
