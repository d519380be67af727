"""What the first bytes of the NAL units in an H.264 or HEVC packet say.

A packet consists of NAL units. In MP4 and Matroska, each is preceded by its length.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roboreel.video.packet_table import Coding

__all__ = ["disposable_test", "first_bytes", "length_bytes_of", "refreshes_all", "restarts"]


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


def refreshes_all(data: memoryview, coding: Coding) -> bool:
    """Return whether nothing after a keyframe refers to anything before it.

    In H.264, images after the keyframe of an open GOP look right without the packets before it, but
    may tell the decoder to drop references to them, which a strict decoder reports as missing.
    """
    if coding.codec != "h264":
        return True
    length_bytes = length_bytes_of(coding)
    return length_bytes is not None and 5 in (
        first & 31 for first in first_bytes(data, length_bytes)
    )


def restarts(data: memoryview, coding: Coding) -> bool:
    """Return whether a keyframe counts images anew, so that it may follow packets of another video.

    H.264 and HEVC order images by a count that only some keyframes set back. Behind foreign packets,
    others are shown too early or not at all.
    """
    if coding.codec not in ("h264", "hevc"):
        return True
    length_bytes = length_bytes_of(coding)
    if length_bytes is None:
        return False
    kinds = list(first_bytes(data, length_bytes))
    if coding.codec == "h264":
        return 5 in (first & 31 for first in kinds)
    return any(16 <= first >> 1 & 63 <= 20 for first in kinds)  # BLA and IDR, but not CRA


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
