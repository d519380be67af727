"""Pictures resized the way video is, so that both kinds of camera look the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av
import numpy as np

from roboreel.image import box_of
from roboreel.video.convert import Converter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.image import Fit


def fit_picture(pixels: NDArray[Any], size: tuple[int, int], fit: Fit) -> NDArray[Any]:
    """Return a picture ``(H, W, C)`` stretched to a size, or scaled and padded: see `box_of`."""
    box = box_of(pixels.shape[:2], size, fit)
    is_scaled = pixels.shape[:2] != box.size
    return box.padded(scale_picture(pixels, box.size) if is_scaled else pixels, "hwc")


def scale_picture(pixels: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Return a picture ``(H, W, C)`` in another size, ``(height, width)``.

    Colour is shrunk by averaging areas and enlarged by linear interpolation, and so is its alpha.
    Anything else, such as depth, takes the nearest pixel.
    """
    if pixels.dtype == np.uint8 and pixels.shape[2] == 4:
        alpha = scale_picture(np.repeat(pixels[..., 3:], 3, axis=2), size)
        return np.concatenate([scale_picture(pixels[..., :3], size), alpha[..., :1]], axis=2)
    if pixels.dtype == np.uint8 and pixels.shape[2] == 3:
        out = np.empty((*size, 3), np.uint8)
        image = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
        Converter().write(image, out, "hwc", None)
        return out
    height, width = pixels.shape[:2]
    rows = ((np.arange(size[0]) + 0.5) * height / size[0]).astype(np.int64)
    columns = ((np.arange(size[1]) + 0.5) * width / size[1]).astype(np.int64)
    nearest: NDArray[Any] = pixels[rows][:, columns]
    return nearest
