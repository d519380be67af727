"""Turn images of any form into the encoded bytes that a store keeps."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np

from roboreel.image import encode_png
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Formats that can be written again with hardly any loss. All others become PNG.
_KEPT_FORMATS: dict[str, dict[str, Any]] = {
    "JPEG": {},
    "PNG": {},
    "TIFF": {},
    "WEBP": {"lossless": True},
}
_PNG_MODES = ("RGBA", "LA", "PA", "P", "RGBa", "La")


@dataclass(frozen=True, slots=True)
class Pixels:
    """An image yet to be encoded."""

    encode: Callable[[], bytes]
    size_bytes: int
    """Its size in memory until then."""


def encoding_of(value: object) -> bytes | Pixels:
    """Return the encoded bytes of an image, or its pixels, to be encoded later in a thread.

    Files are read and pixels copied before this returns, so the caller may reuse its buffer or
    remove its file at once.

    Args:
        value: Encoded bytes or a path (stored as they are), a Pillow image (keeps its format where
            possible), or an array ``(height, width[, 1 … 4])`` of uint8, uint16 or bool (black and white).

    Raises:
        TypeError: The value is not an image.
        ValueError: The array has the wrong shape.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (str, Path)):
        return read_file(Path(value), "picture")
    if _is_pillow(value):
        return _pillow_encoding(value)
    if hasattr(value, "__array__"):
        pixels = _checked_pixels(value)
        return Pixels(partial(_encode_png, pixels), pixels.nbytes)
    raise TypeError(
        f"expected bytes, a path, a Pillow image or an array, got {type(value).__name__}"
    )


def _checked_pixels(value: Any) -> NDArray[Any]:  # noqa: ANN401  # whatever can be an array
    pixels = np.array(value, order="C", copy=True)
    if pixels.dtype == bool:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype not in (np.uint8, np.uint16):
        raise TypeError(f"expected pixels of uint8 or uint16, got {pixels.dtype}")
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if 0 in pixels.shape or not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] <= 4)):
        raise ValueError(f"expected pixels (height, width[, 1 to 4]), got {np.shape(value)}")
    return pixels


def _encode_png(pixels: NDArray[Any]) -> bytes:
    if pixels.ndim == 3 and pixels.shape[2] in (2, 4):
        # With alpha, which `encode_png` does not take.
        return bytes(imagecodecs.png_encode(pixels, level=1))
    return encode_png(pixels)


def _is_pillow(value: object) -> bool:
    # Pillow is not a dependency, but a caller who has one of its images has imported it.
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _pillow_encoding(image: Any) -> Pixels:  # noqa: ANN401  # Pillow is untyped here
    image.load()  # Pillow reads lazily, and the caller may close the file right after this.
    name = image.format if image.format in _KEPT_FORMATS else "PNG"
    if image.mode in _PNG_MODES or (name == "JPEG" and not hasattr(image, "quantization")):
        name = "PNG"
    options = dict(_KEPT_FORMATS[name])
    if name == "JPEG":  # With its own tables, a second compression loses hardly anything.
        options = {"qtables": image.quantization, "subsampling": _jpeg_sampling(image)}
    work = partial(_save_pillow, image.copy(), name, options)
    return Pixels(work, image.width * image.height * len(image.getbands()))


def _jpeg_sampling(image: Any) -> int:  # noqa: ANN401
    return int(sys.modules["PIL.JpegImagePlugin"].get_sampling(image))


def _save_pillow(image: Any, name: str, options: dict[str, Any]) -> bytes:  # noqa: ANN401
    buffer = io.BytesIO()
    image.save(buffer, format=name, **options)
    return buffer.getvalue()
