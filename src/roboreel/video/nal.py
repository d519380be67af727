"""What packets say of themselves: keyframes, and packets that no other image needs.

A packet of H.264 or HEVC consists of NAL units. In MP4 and Matroska, each is preceded by its length.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roboreel.video.bitstream import length_bytes_of, obus, units
from roboreel.video.codecs import nal_units

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from roboreel.video.packet_table import Coding


_AV1_FRAME_HEADERS = (3, 6)


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
    nal = nal_units(coding.codec)
    if nal is None:
        return {"av1": _is_av1_keyframe, "vp9": _is_vp9_keyframe}.get(coding.codec)
    if length_bytes_of(coding) is None:
        return None
    return partial(_has_unit, coding=coding, wanted=nal.keyframes)


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
    return coding.codec != "h264" or restarts(data, coding)


def restarts(data: memoryview, coding: Coding) -> bool:
    """Return whether a keyframe counts images anew, so that it may follow packets of another video.

    H.264 and HEVC order images by a count that only some keyframes set back. Behind foreign packets,
    others are shown too early or not at all.
    """
    nal = nal_units(coding.codec)
    return nal is None or _has_unit(data, coding, nal.restarts)


def _has_unit(data: memoryview, coding: Coding, wanted: Container[int]) -> bool:
    """Return whether a packet has a NAL unit of one of some types; no, where there is no length."""
    length_bytes, nal = length_bytes_of(coding), nal_units(coding.codec)
    if length_bytes is None or nal is None:
        return False
    return any(nal.type_of(first) in wanted for first in _first_bytes(data, length_bytes))


def _is_disposable_h264(data: memoryview, length_bytes: int) -> bool:
    slices = [first for first in _first_bytes(data, length_bytes) if first & 31 in (1, 2, 3, 4, 5)]
    # nal_ref_idc of 0: not used for reference.
    return bool(slices) and not any(first & 0x60 for first in slices)


def _is_disposable_hevc(data: memoryview, length_bytes: int) -> bool:
    kinds = [(first >> 1) & 63 for first in _first_bytes(data, length_bytes)]
    slices = [kind for kind in kinds if kind < 32]
    # The even types up to 14 are sub-layer non-reference images.
    return bool(slices) and all(kind <= 14 and kind % 2 == 0 for kind in slices)


def _first_bytes(data: memoryview, length_bytes: int) -> list[int]:
    """Return the first byte of each NAL unit of a packet."""
    size_bytes = len(data)
    return [data[at] for at, stop in units(data, length_bytes) if at < stop and at < size_bytes]
