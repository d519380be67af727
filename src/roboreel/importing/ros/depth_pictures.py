"""Depth images that ROS compressed: a PNG behind a header of twelve bytes. Pure."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.image import decode_image

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HEADER_BYTES", "distances", "is_depth", "png_of"]

HEADER_BYTES = 12
_HEADER = struct.Struct("<iff")
_PNG = b"\x89PNG\r\n\x1a\n"


def is_depth(form: str) -> bool:
    """Return whether the format of a compressed image is that of compressed_depth_image_transport."""
    return "compressedDepth" in form


def png_of(data: bytes) -> bytes:
    """Return the PNG file of a compressed depth image, as it is.

    Raises:
        SourceError: There is none, such as in images that are packed with RVL.
    """
    picture = data[HEADER_BYTES:]
    if not picture.startswith(_PNG):
        raise SourceError(
            "its compressed depth is not PNG (RVL perhaps), which is not read: "
            "record it with the format png"
        )
    return picture


def distances(data: bytes) -> NDArray[np.float32]:
    """Return the metres ``(H, W, 1)`` of a 32FC1 image; NaN where nothing was seen.

    Such an image is stored as inverse depth, in steps that its header gives.

    Raises:
        SourceError: It is not one.
    """
    picture = png_of(data)
    _, quant_a, quant_b = _HEADER.unpack_from(data)
    try:
        codes = decode_image(picture)
    except CorruptFileError as error:
        raise SourceError(str(error)) from error
    steps = np.asarray(codes, np.float32).reshape(codes.shape[0], codes.shape[1], -1)[..., :1]
    with np.errstate(divide="ignore", invalid="ignore"):
        metres = np.float32(quant_a) / (steps - np.float32(quant_b))
    return np.where(steps == 0, np.float32(np.nan), metres).astype(np.float32)
