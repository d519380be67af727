"""Which encoded images no other image leans on, seen from the first bytes of their parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roboreel.video.samples import Coding

__all__ = ["disposable_test"]

_FIRST_RESERVED_HEVC = 32
"""Types below are parts of images."""


def disposable_test(coding: Coding) -> Callable[[memoryview], bool] | None:
    """Return a function that tells whether a sample can be left out when it is not wanted.

    Leaving such samples out changes no bit of the others; encoders make half of all images so.
    None for codecs, or streams, where a glance at the bytes cannot tell.
    """
    record = coding.extradata
    # A record that begins with 1 says that parts follow their lengths, as in MP4 and Matroska.
    if coding.codec == "h264" and len(record) > 6 and record[0] == 1:
        return partial(_is_disposable_h264, length_bytes=(record[4] & 3) + 1)
    if (
        coding.codec == "hevc"
        and len(record) > 22
        and record[0] == 1
        and (record[21] >> 3) & 7 == 1
    ):
        # Only with a single temporal layer: a higher layer may lean on what this one does not.
        return partial(_is_disposable_hevc, length_bytes=(record[21] & 3) + 1)
    return None


def _is_disposable_h264(data: memoryview, length_bytes: int) -> bool:
    slices = [first for first in _first_bytes(data, length_bytes) if first & 31 in (1, 2, 3, 4, 5)]
    # nal_ref_idc of 0: not used for reference.
    return bool(slices) and not any(first & 0x60 for first in slices)


def _is_disposable_hevc(data: memoryview, length_bytes: int) -> bool:
    kinds = [(first >> 1) & 63 for first in _first_bytes(data, length_bytes)]
    slices = [kind for kind in kinds if kind < _FIRST_RESERVED_HEVC]
    # The even types up to 14 are sub-layer non-reference images.
    return bool(slices) and all(kind <= 14 and kind % 2 == 0 for kind in slices)


def _first_bytes(data: memoryview, length_bytes: int) -> Iterator[int]:
    """Yield the first byte of each part (NAL unit) of a sample."""
    at = 0
    while at + length_bytes < len(data):
        yield data[at + length_bytes]
        at += length_bytes + int.from_bytes(data[at : at + length_bytes], "big")
