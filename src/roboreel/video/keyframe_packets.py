"""Whether a packet is a keyframe, by what it says itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roboreel.video.bitstream import obus
from roboreel.video.nal import first_bytes, length_bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from roboreel.video.packet_table import Coding

__all__ = ["keyframe_test"]

_AV1_FRAME_HEADERS = (3, 6)
_H264_IDR = 5
_HEVC_KEYFRAMES = range(16, 22)  # BLA, IDR and CRA


def keyframe_test(coding: Coding) -> Callable[[memoryview], bool] | None:
    """Return a function that says whether decoding can start at a packet.

    In H.264 only an IDR image counts: an I-frame before which decoding may not start looks the same.
    None for codecs and streams where the first bytes cannot tell.
    """
    if coding.codec in ("av1", "libdav1d"):
        return _is_av1_keyframe
    if coding.codec == "vp9":
        return _is_vp9_keyframe
    length_bytes = length_bytes_of(coding)
    if length_bytes is None:
        return None
    test = _is_h264_keyframe if coding.codec == "h264" else _is_hevc_keyframe
    return partial(test, length_bytes=length_bytes)


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


def _is_h264_keyframe(data: memoryview, length_bytes: int) -> bool:
    return any(first & 31 == _H264_IDR for first in first_bytes(data, length_bytes))


def _is_hevc_keyframe(data: memoryview, length_bytes: int) -> bool:
    kinds = (first >> 1 & 63 for first in first_bytes(data, length_bytes))
    return any(kind in _HEVC_KEYFRAMES for kind in kinds)
