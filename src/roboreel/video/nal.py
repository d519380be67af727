"""What the parts of an H.264 or HEVC packet tell by their first byte.

The parts are NAL units. In MP4 and Matroska each follows its length.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roboreel.video.packet_table import Coding

__all__ = ["disposable_test", "refreshes_all"]


def disposable_test(coding: Coding) -> Callable[[memoryview], bool] | None:
    """Return a function that tells whether a packet can be left out when it is not wanted.

    Leaving such packets out changes no bit of the others; encoders make half of all images so.
    None for codecs, or streams, where a glance at the bytes cannot tell.
    """
    length_bytes = _length_bytes(coding)
    if length_bytes is None:
        return None
    if coding.codec == "h264":
        return partial(_is_disposable_h264, length_bytes=length_bytes)
    # HEVC only with a single temporal layer: a higher one may lean on what this one does not.
    is_single_layer = (coding.extradata[21] >> 3) & 7 == 1
    return partial(_is_disposable_hevc, length_bytes=length_bytes) if is_single_layer else None


def refreshes_all(data: memoryview, coding: Coding) -> bool:
    """Return whether nothing after a keyframe speaks of anything before it.

    Images after the keyframe of an open group in H.264 look right without what was before, but
    may contain orders to forget it, which a strict decoder then misses.
    """
    if coding.codec != "h264":
        return True
    length_bytes = _length_bytes(coding)
    return length_bytes is not None and 5 in (
        first & 31 for first in _first_bytes(data, length_bytes)
    )


def _length_bytes(coding: Coding) -> int | None:
    """Return how many bytes the length before each part takes; None if there is no length."""
    record = coding.extradata
    # A record begins with 1; otherwise it is a piece of a stream with start codes.
    if coding.codec == "h264" and len(record) > 6 and record[0] == 1:
        return (record[4] & 3) + 1
    if coding.codec == "hevc" and len(record) > 22 and record[0] == 1:
        return (record[21] & 3) + 1
    return None


def _is_disposable_h264(data: memoryview, length_bytes: int) -> bool:
    slices = [first for first in _first_bytes(data, length_bytes) if first & 31 in (1, 2, 3, 4, 5)]
    # nal_ref_idc of 0: not used for reference.
    return bool(slices) and not any(first & 0x60 for first in slices)


def _is_disposable_hevc(data: memoryview, length_bytes: int) -> bool:
    kinds = [(first >> 1) & 63 for first in _first_bytes(data, length_bytes)]
    slices = [kind for kind in kinds if kind < 32]
    # The even types up to 14 are sub-layer non-reference images.
    return bool(slices) and all(kind <= 14 and kind % 2 == 0 for kind in slices)


def _first_bytes(data: memoryview, length_bytes: int) -> Iterator[int]:
    """Yield the first byte of each part (NAL unit) of a packet."""
    at = 0
    while at + length_bytes < len(data):
        yield data[at + length_bytes]
        at += length_bytes + int.from_bytes(data[at : at + length_bytes], "big")
