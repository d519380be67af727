"""Incompressible pictures of 40 KB, which all contenders store. Standard library only."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["PICTURE_BYTES", "checksum", "pictures"]

PICTURE_BYTES = 40_000


def pictures(count: int) -> Iterator[dict[str, Any]]:
    """Yield examples of a picture and its number, the same in every process."""
    noise = random.Random(0).randbytes(4 * 1024**2)
    for number in range(count):
        start = number * 977 % (len(noise) - PICTURE_BYTES)
        yield {"image": noise[start : start + PICTURE_BYTES], "number": number}


def checksum(images: Iterable[bytes]) -> float:
    """Return a number that is equal if contenders have read the same pictures."""
    return float(sum(map(zlib.crc32, images)))
