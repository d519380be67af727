"""Raw images of ROS → arrays. Pure: bytes in, pixels out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import SourceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ENCODINGS", "PixelFormat", "pixel_format", "pixels"]

_MOST_PIXELS = 2**26


@dataclass(frozen=True, slots=True)
class PixelFormat:
    """What the bytes of a pixel are, and what becomes of them."""

    dtype: str
    stored: int
    """Numbers per pixel in the message."""
    order: tuple[int, ...]
    """Which of them are kept, as red, green, blue, or as one."""
    depth_unit: str | None = None
    note: str = ""


_GREY, _RGB, _BGR = (0,), (0, 1, 2), (2, 1, 0)
_NO_ALPHA = "The alpha channel is left out."
ENCODINGS = {
    "rgb8": PixelFormat("uint8", 3, _RGB),
    "bgr8": PixelFormat("uint8", 3, _BGR),
    "rgba8": PixelFormat("uint8", 4, _RGB, note=_NO_ALPHA),
    "bgra8": PixelFormat("uint8", 4, _BGR, note=_NO_ALPHA),
    "mono8": PixelFormat("uint8", 1, _GREY),
    "8UC1": PixelFormat("uint8", 1, _GREY),
    "8UC3": PixelFormat(
        "uint8", 3, _BGR, note="8UC3 names no colours: blue is taken to come first."
    ),
    "mono16": PixelFormat(
        "uint16", 1, _GREY, "mm", "mono16 names no unit: millimetres are assumed."
    ),
    "16UC1": PixelFormat("uint16", 1, _GREY, "mm"),
    "32FC1": PixelFormat("float32", 1, _GREY, "m"),
}
"""By the name that ROS gives them. Depth is in millimetres as 16UC1 and in metres as 32FC1 (REP 118)."""


def pixel_format(encoding: str) -> PixelFormat:
    """Return what an encoding means.

    Raises:
        SourceError: It is not read. The sentence follows the topic's name.
    """
    found = ENCODINGS.get(encoding.strip())
    if found is not None:
        return found
    if encoding.startswith("bayer_"):
        raise SourceError(
            f"its images are a Bayer pattern ({encoding[:20]!r}), whose colours are not worked out "
            "here: record the topic of image_proc instead, or convert the bag."
        )
    raise SourceError(
        f"its images are encoded as {encoding[:40]!r}: {', '.join(ENCODINGS)} are read."
    )


def pixels(
    data: NDArray[np.uint8],
    form: PixelFormat,
    size: tuple[int, int],
    *,
    step: int,
    big_endian: bool,
) -> NDArray[np.generic]:
    """Return an image ``(H, W, C)``, in the byte order of this machine.

    Args:
        data: The bytes of the message.
        form: What they are.
        size: Height and width.
        step: Bytes from one row to the next; 0 if rows follow each other without padding.
        big_endian: Whether numbers of several bytes begin with the highest.

    Raises:
        SourceError: The bytes are too few for such an image.
    """
    height, width = size
    stored = np.dtype(form.dtype).newbyteorder(">" if big_endian else "<")
    row_bytes = width * form.stored * stored.itemsize
    step = step or row_bytes
    needed = step * (height - 1) + row_bytes if height else 0
    if not (0 < height * width <= _MOST_PIXELS and step >= row_bytes and len(data) >= needed):
        raise SourceError(
            f"an image of {width} x {height} pixels with {step} bytes per row needs {needed:,} bytes, "
            f"and has {len(data):,}"
        )
    rows = np.ndarray((height, row_bytes), np.uint8, np.ascontiguousarray(data), strides=(step, 1))
    image = np.ascontiguousarray(rows).view(stored).reshape(height, width, form.stored)
    return np.ascontiguousarray(image[..., list(form.order)], dtype=np.dtype(form.dtype))
