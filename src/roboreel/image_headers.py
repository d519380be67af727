"""Formats and sizes of encoded pictures, from their headers alone."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roboreel.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Callable

    Encoded = bytes | bytearray | memoryview

_MOST_PIXELS = 2**26
"""67 million, eight times 4K: more is taken for a corrupt or hostile header."""
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 1, 6: 3}


class ImageSize(NamedTuple):
    """Shape of a decoded picture."""

    height: int
    width: int
    channels: int
    """1 for grey and depth, 3 for colour; opacity does not count."""


def read_header(data: Encoded) -> tuple[str, ImageSize]:
    """Return the format of a picture, and its size if that is plausible."""
    start = bytes(data[:16])
    found = next((kind for kind in _HEADERS if start.startswith(kind[1])), None)
    if found is None:
        raise CorruptFileError(
            f"The {len(data)} bytes are not a PNG, JPEG, TIFF, WebP, GIF or BMP picture: "
            f"they begin with {start[:8].hex(' ') or 'nothing'}."
        )
    name, _, read_size = found
    try:
        size = read_size(data)
    except (struct.error, IndexError, KeyError) as error:
        raise CorruptFileError(f"The header of the {name} picture is cut off or wrong.") from error
    pixels = size.height * size.width
    highest = min(_MOST_PIXELS, len(data) * _HIGHEST_RATIO.get(name, _MOST_PIXELS))
    if not 0 < pixels <= highest or min(size) <= 0:
        raise CorruptFileError(
            f"The {name} picture of {len(data)} bytes claims {size.width} x {size.height} pixels."
        )
    return name, size


def _png_size(data: Encoded) -> ImageSize:
    width, height, _, colour = struct.unpack_from(">II2B", data, 16)
    return ImageSize(height, width, _PNG_CHANNELS[colour])


def _jpeg_size(data: Encoded) -> ImageSize:
    size: ImageSize | None = None
    offset = 2
    while True:
        marker, kind, length = struct.unpack_from(">BBH", data, offset)
        if marker != 0xFF:
            raise CorruptFileError("The JPEG picture has bytes between its segments.")
        if kind == 0xFF:  # padding
            offset += 1
            continue
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width, components = struct.unpack_from(">HHB", data, offset + 5)
            size = ImageSize(height, width, 1 if components == 1 else 3)
        offset += 2 + length
        if kind == 0xDA:
            break
    # libjpeg fills in grey for missing data. Inside a scan, these two bytes mean the end and
    # nothing else.
    if size is None or bytes(data[offset:]).rfind(b"\xff\xd9") < 0:
        raise CorruptFileError("The JPEG picture is cut off.")
    return size


def _tiff_size(data: Encoded) -> ImageSize:
    tags = _tiff_tags(data)
    stored_bits = len(data) * 8 if tags.get(259, 1) == 1 else _MOST_PIXELS
    if tags.get(277, 1) > 4 or tags[256] * tags[257] > stored_bits:
        raise CorruptFileError(
            f"The TIFF picture of {len(data)} bytes claims {tags[256]} x {tags[257]} pixels "
            f"of {tags.get(277, 1)} channels."
        )
    colour = tags.get(262) == _TIFF_PALETTE or tags.get(277, 1) >= 3
    return ImageSize(tags[257], tags[256], 3 if colour else 1)


def has_palette(data: Encoded) -> bool:
    """Return whether the pixels of a TIFF picture are places in a table of colours."""
    return _tiff_tags(data).get(262) == _TIFF_PALETTE


def _tiff_tags(data: Encoded) -> dict[int, int]:
    """Return those tags of the first directory that hold one small number."""
    order = "<" if bytes(data[:2]) == b"II" else ">"
    (directory,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, directory)
    tags: dict[int, int] = {}
    for entry in range(directory + 2, directory + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(order + "HH", data, entry)
        if kind in (3, 4):
            (tags[tag],) = struct.unpack_from(order + ("H" if kind == 3 else "I"), data, entry + 8)
    return tags


def _webp_size(data: Encoded) -> ImageSize:
    kind = bytes(data[12:16])
    if kind == b"VP8X":  # extended: three bytes each, less one
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
    elif kind == b"VP8L":  # lossless: fourteen bits each, less one
        (bits,) = struct.unpack_from("<I", data, 21)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
    return ImageSize(height, width, 3)


def _gif_size(data: Encoded) -> ImageSize:
    width, height = struct.unpack_from("<HH", data, 6)
    return ImageSize(height, width, 3)


def _bmp_size(data: Encoded) -> ImageSize:
    header, width, height, _, bits = struct.unpack_from("<IiiHH", data, 14)
    if not width > 0 or (bits < 16 and width * abs(height) > 8 * len(data)):
        raise CorruptFileError(f"The BMP picture of {len(data)} bytes claims {width} x {height}.")
    # A picture whose palette holds shades of grey is grey; a negative height means top-down.
    return ImageSize(abs(height), width, 1 if bits <= 8 and _is_grey(data, header, bits) else 3)


def _is_grey(data: Encoded, header: int, bits: int) -> bool:
    (used,) = struct.unpack_from("<I", data, 46)
    count = min(used or 1 << bits, 256)
    palette = struct.unpack_from(f"{4 * count}B", data, 14 + header)
    blue, green, red, _ = np.asarray(palette).reshape(-1, 4).T
    return bool((blue == green).all() and (green == red).all())


_HEADERS: tuple[tuple[str, bytes, Callable[[Encoded], ImageSize]], ...] = (
    ("PNG", b"\x89PNG\r\n\x1a\n", _png_size),
    ("JPEG", b"\xff\xd8\xff", _jpeg_size),
    ("TIFF", b"II*\0", _tiff_size),
    ("TIFF", b"MM\0*", _tiff_size),
    ("WebP", b"RIFF", _webp_size),
    ("GIF", b"GIF8", _gif_size),
    ("BMP", b"BM", _bmp_size),
)

_HIGHEST_RATIO = {"PNG": 8 * 1040, "JPEG": 2048}
"""Pixels that one byte can stand for: Deflate packs 1 to 1032 and a PNG pixel has a bit or more;
a JPEG block of 64 pixels has a bit or more."""
_TIFF_PALETTE = 3
