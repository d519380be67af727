"""Encoded pictures."""

import imagecodecs
import numpy as np
from numpy.typing import NDArray


def encode_png(image: NDArray[np.uint8]) -> bytes:
    """Return PNG."""
    return bytes(imagecodecs.png_encode(image))
