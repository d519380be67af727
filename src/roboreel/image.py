"""Encoded pictures as arrays, and arrays as encoded pictures."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import imagecodecs
import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.image_headers import ImageSize, has_palette, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from roboreel.threads import ThreadPool

    Encoded = bytes | bytearray | memoryview
    Pixels = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.float32]

__all__ = [
    "Box",
    "Fit",
    "ImageSize",
    "Layout",
    "box_of",
    "decode_image",
    "decode_images",
    "encode_jpeg",
    "encode_png",
    "from_channels_last",
    "image_shape",
    "image_size",
]

Layout = Literal["chw", "hwc"]
"""Order of the axes of an image: channels first or channels last."""

Fit = Literal["stretch", "pad"]
"""How an image of other proportions fills a size: by changing them, or with black bars."""

_PIXEL_TYPES = frozenset(["uint8", "uint16", "int32", "float32"])


def image_shape(height: int, width: int, channels: int, layout: Layout) -> tuple[int, int, int]:
    """Return the shape of an image in a layout."""
    return (channels, height, width) if layout == "chw" else (height, width, channels)


def from_channels_last(images: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return images ``(…, H, W, C)`` in a layout, as a view."""
    return np.moveaxis(images, -1, -3) if layout == "chw" else images


class Box(NamedTuple):
    """Where an image lies inside a larger one, between bars."""

    outer: tuple[int, int]
    """Height and width of the whole, with the bars."""
    top: int
    left: int
    size: tuple[int, int]
    """Height and width of the image itself."""

    def inside(self, images: NDArray[Any], layout: Layout) -> NDArray[Any]:
        """Return the part of images that lies in the box, as a view."""
        rows = slice(self.top, self.top + self.size[0])
        columns = slice(self.left, self.left + self.size[1])
        return images[..., rows, columns] if layout == "chw" else images[..., rows, columns, :]

    def padded(self, image: NDArray[Any], layout: Layout) -> NDArray[Any]:
        """Return an image of the box's size with its bars."""
        if self.size == self.outer:
            return image
        channels = image.shape[0 if layout == "chw" else 2]
        whole = np.zeros(image_shape(*self.outer, channels, layout), image.dtype)
        self.inside(whole, layout)[...] = image
        return whole


def box_of(stored: tuple[int, ...], size: tuple[int, int], fit: Fit) -> Box:
    """Return where an image lies when it fills a size.

    Args:
        stored: Height and width of the image.
        size: Height and width that it is brought to.
        fit: ``"stretch"`` fills all of it. ``"pad"`` keeps the proportions, to the nearest pixel,
            with the image in the middle.
    """
    if fit == "stretch":
        return Box(size, 0, 0, size)
    (height, width), (own_height, own_width) = size, stored
    # Whole numbers, so that the box is the same on every machine: the side that fits first is full.
    if own_height * width >= own_width * height:
        inner = (height, max(1, (2 * own_width * height + own_height) // (2 * own_height)))
    else:
        inner = (max(1, (2 * own_height * width + own_width) // (2 * own_width)), width)
    return Box(size, (height - inner[0]) // 2, (width - inner[1]) // 2, inner)


def image_size(data: Encoded) -> ImageSize:
    """Return the shape that a picture will have, from its header alone.

    Raises:
        CorruptFileError: The header is not of a PNG, JPEG, TIFF, WebP, GIF or BMP picture, is cut
            off, or has an impossible size.
    """
    return read_header(data)[1]


def decode_image(data: Encoded, *, alpha: bool | None = False) -> Pixels:
    """Return a picture as an array, ``(H, W, C)``.

    Grey and depth have one channel, colour has three, red first. Transparency is dropped and
    palettes are resolved, as ``PIL.Image.convert("RGB")`` does; a rotation noted in EXIF is left
    alone, as ``PIL.Image.open`` does. Pixels are uint8, or what the picture holds: uint16 PNG and
    TIFF, int32 and float32 TIFF.

    Args:
        data: A PNG, JPEG, TIFF, WebP, GIF or BMP picture. A GIF is always in colour; of several
            pictures, the first one counts.
        alpha: Whether colour has a fourth channel, its opacity, as ``PIL.Image.convert("RGBA")``
            does: a picture without transparency is opaque. None leaves it to the picture: grey
            and colour have one more channel if there is transparency.

    Raises:
        CorruptFileError: The picture cannot be decoded. The message says why, but not which
            picture it is: only the caller knows.
    """
    name, size = read_header(data)
    try:
        pixels = _DECODERS[name](data if isinstance(data, bytes) else bytes(data))
    except Exception as error:  # each codec has an error of its own, and some raise ValueError
        raise CorruptFileError(f"The {name} picture cannot be decoded: {error}.") from error
    if alpha is not None:
        pixels = _with_alpha(pixels) if alpha and size.channels == 3 else _opaque(pixels)
    if pixels.ndim == 2:
        pixels = pixels[..., np.newaxis]
    if (alpha is None and pixels.shape[2] in (2, 4)) or (alpha and size.channels == 3):
        size = size._replace(channels=size.channels + 1)
    if pixels.shape != size or pixels.dtype.name not in _PIXEL_TYPES:
        raise CorruptFileError(
            f"The {name} picture decodes to {pixels.dtype} pixels of shape {pixels.shape}; "
            f"its header says {tuple(size)}."
        )
    return pixels


def decode_images(
    items: Sequence[Encoded],
    out: Sequence[NDArray[Any]] | NDArray[Any],
    *,
    layout: Layout,
    alpha: bool = False,
    pool: ThreadPool | None = None,
) -> None:
    """Decode pictures into a batch.

    Args:
        items: Encoded pictures, all of the batch's size and type.
        out: Where to write each: ``(C, H, W)`` or, for ``"hwc"``, ``(H, W, C)``.
        layout: Order of the batch's axes.
        alpha: Whether colour has a fourth channel: see `decode_image`.
        pool: Threads to decode in; decoding releases the GIL.

    Raises:
        CorruptFileError: A picture cannot be decoded, or does not fit; the first one, by position.
    """
    if len(items) != len(out):
        raise ValueError(f"There are {len(items)} pictures for {len(out)} places.")
    targets = [image.transpose(1, 2, 0) for image in out] if layout == "chw" else out
    if pool is None or len(items) < 2:
        for position, item in enumerate(items):
            _decode_into(item, targets[position], position, alpha)
        return
    for _ in pool.map(_decode_into, items, targets, range(len(items)), repeat(alpha)):
        pass


def encode_png(pixels: NDArray[np.uint8] | NDArray[np.uint16], *, level: int = 1) -> bytes:
    """Return a picture ``(H, W)``, ``(H, W, 1)`` or ``(H, W, 3)`` as PNG, without loss.

    Args:
        pixels: The picture.
        level: 0 to 9. The lowest levels are several times as fast, and hardly larger for cameras.
    """
    return bytes(imagecodecs.png_encode(_plain(pixels), level=level))


def encode_depth(distances: NDArray[Any], unit: str) -> bytes:
    """Return distances ``(H, W)`` or ``(H, W, 1)`` as a picture.

    Args:
        distances: Floating point in metres, or uint16 in millimetres.
        unit: ``"mm"``: PNG of 16 bits, in whole millimetres up to 65535, 0 for NaN.
            ``"m"``: TIFF of float32, in metres.
    """
    in_metres = distances.dtype.kind == "f"
    if unit == "m":
        metres = distances if in_metres else distances / 1000.0
        return bytes(imagecodecs.tiff_encode(_plain(metres.astype(np.float32))))
    if in_metres:
        distances = np.rint(np.nan_to_num(distances * 1000.0)).clip(0, 65535)
    return encode_png(distances.astype(np.uint16))


def encode_jpeg(pixels: NDArray[np.uint8], *, quality: int = 95) -> bytes:
    """Return a picture ``(H, W)``, ``(H, W, 1)`` or ``(H, W, 3)`` as JPEG."""
    return bytes(imagecodecs.jpeg8_encode(_plain(pixels), level=quality))


def _decode_into(data: Encoded, target: NDArray[Any], position: int, alpha: bool) -> None:
    try:
        pixels = decode_image(data, alpha=alpha)
    except CorruptFileError as error:
        raise CorruptFileError(f"Picture {position} of the batch: {error}") from error
    if pixels.shape != target.shape or pixels.dtype != target.dtype:
        raise CorruptFileError(
            f"Picture {position} of the batch is {pixels.dtype} of shape {pixels.shape}, "
            f"where {target.dtype} of shape {target.shape} is expected."
        )
    np.copyto(target, pixels)


def _plain(pixels: NDArray[Any]) -> NDArray[Any]:
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3)):
        raise ValueError(f"A picture has shape (H, W), (H, W, 1) or (H, W, 3), not {pixels.shape}.")
    grey = pixels.ndim == 3 and pixels.shape[2] == 1
    return np.ascontiguousarray(pixels[..., 0] if grey else pixels)


def _decode_png(data: bytes) -> NDArray[Any]:
    pixels: NDArray[Any] = imagecodecs.png_decode(data)
    return pixels


def _decode_jpeg(data: bytes) -> NDArray[Any]:
    pixels: NDArray[Any] = imagecodecs.jpeg8_decode(data)
    return _rgb_from_cmyk(pixels) if pixels.ndim == 3 and pixels.shape[2] == 4 else pixels


def _decode_tiff(data: bytes) -> NDArray[Any]:
    palette = has_palette(data)
    pixels: NDArray[Any] = imagecodecs.tiff_decode(data, asrgb=palette)
    if palette:
        return _opaque(pixels)  # libtiff adds a channel, though palettes have no transparency.
    return pixels.astype(np.uint8) * np.uint8(255) if pixels.dtype == np.bool_ else pixels


def _decode_webp(data: bytes) -> NDArray[Any]:
    pixels: NDArray[Any] = imagecodecs.webp_decode(data)
    return pixels


def _decode_gif(data: bytes) -> NDArray[Any]:
    pixels: NDArray[Any] = imagecodecs.gif_decode(data, index=0)
    return pixels


_BMP_HEADER_WITH_ALPHA = 56


def _decode_bmp(data: bytes) -> NDArray[Any]:
    pixels: NDArray[Any] = imagecodecs.bmp_decode(data)
    if pixels.ndim == 3 and image_size(data).channels == 1:
        return np.ascontiguousarray(pixels[..., 0])
    # Only later headers say where the opacity is; before, the fourth byte means nothing.
    return _opaque(pixels) if data[14] < _BMP_HEADER_WITH_ALPHA else pixels


_DECODERS: dict[str, Callable[[bytes], NDArray[Any]]] = {
    "PNG": _decode_png,
    "JPEG": _decode_jpeg,
    "TIFF": _decode_tiff,
    "WebP": _decode_webp,
    "GIF": _decode_gif,
    "BMP": _decode_bmp,
}


def _opaque(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return a picture without its alpha channel."""
    if pixels.ndim == 3 and pixels.shape[2] in (2, 4):
        pixels = np.ascontiguousarray(pixels[..., :-1])
    return pixels


def _with_alpha(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return a picture in colour with an alpha channel, opaque if it has none."""
    if pixels.shape[2] != 3:
        return pixels
    opaque = 1 if pixels.dtype.kind == "f" else np.iinfo(pixels.dtype).max
    full = np.full((*pixels.shape[:2], 1), opaque, pixels.dtype)
    return np.concatenate([pixels, full], axis=2)


def _rgb_from_cmyk(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    # Stored inverted, as by Adobe; rounded as in Pillow.
    ink = 255 - pixels[..., :3].astype(np.uint32)
    black = pixels[..., 3:].astype(np.uint32)
    product = ink * black + 128
    return (black - ((product >> 8) + product >> 8)).astype(np.uint8)
