"""Pictures as TIFF, which roboreel reads but does not write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import pytest

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["encode_tiff"]


def encode_tiff(pixels: NDArray[Any]) -> bytes:
    """Return a picture as uncompressed TIFF, or skip the test where nothing here can write it."""
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    try:
        return bytes(imagecodecs.tiff_encode(np.ascontiguousarray(pixels)))
    except NotImplementedError:  # before imagecodecs 2025.8
        pytest.skip(f"imagecodecs {imagecodecs.__version__} writes no TIFF")
