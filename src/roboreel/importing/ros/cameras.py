"""Messages that hold images: raw, as pictures, as depth, as packets of video."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.image import decode_image
from roboreel.image_headers import read_header
from roboreel.importing.recording import Stream
from roboreel.importing.ros.nodes import getter
from roboreel.importing.ros.packets import codec_of
from roboreel.importing.ros.parts import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from roboreel.importing.ros.nodes import Group


_RAW = frozenset(("height", "width", "encoding", "step", "data"))
_data = getter(("data",))


def camera_kind(kind: str, tree: Group, probe: Any) -> str | None:  # noqa: ANN401  # a message
    """Return how messages hold images: ``raw``, ``picture`` or ``packets``; None if they do not."""
    fields = set(tree.fields)
    if kind.endswith(("Image", "RawImage")) and fields >= _RAW:
        return "raw"
    if kind.endswith("FFMPEGPacket") and {"encoding", "data"} <= fields:
        return "packets"
    if not {"format", "data"} <= fields or not kind.endswith(
        ("CompressedImage", "CompressedVideo")
    ):
        return None
    return "picture" if kind.endswith("Image") and message_codec(probe) is None else "packets"


def message_bytes(message: Any) -> bytes:  # noqa: ANN401  # a message
    """Return the bytes that a message carries; JSON has them as base64."""
    data = _data(message)
    if isinstance(data, str):
        return base64.b64decode(data, validate=True)
    return data.tobytes() if isinstance(data, np.ndarray) else bytes(data)


def message_codec(message: Any) -> str | None:  # noqa: ANN401  # a message
    """Return the codec of a message with a packet of video; None if it holds none."""
    return codec_of(_text(message, "format") or _text(message, "encoding"))


def image_part(topic: str, probe: Any) -> Part:  # noqa: ANN401  # an image
    """Return the stream of a topic with raw images.

    Raises:
        SourceError: Their encoding is not read, or the first one is not whole.
    """
    encoding = _text(probe, "encoding")
    form = pixel_format(encoding)

    def take(message: Any) -> NDArray[Any]:  # noqa: ANN401  # an image
        if _text(message, "encoding") != encoding:
            raise SourceError(
                f"is encoded as {_text(message, 'encoding')[:40]!r}, the first one as {encoding!r}"
            )
        data = np.frombuffer(message_bytes(message), np.uint8)
        size = (_number(message, "height"), _number(message, "width"))
        big_endian = bool(_field(message, "is_bigendian", 0))
        return pixels(data, form, size, step=_number(message, "step"), big_endian=big_endian)

    return _pixels_part(topic, take, probe, form.depth_unit, form.note)


def picture_part(topic: str, probe: Any) -> Part:  # noqa: ANN401  # a compressed image
    """Return the stream of a topic with compressed images. PNG and JPEG keep their bytes.

    Raises:
        SourceError: They are pictures of another kind, or the first one is not whole.
    """
    form, data_of = _text(probe, "format"), message_bytes
    is_depth = "compressedDepth" in form  # as compressed_depth_image_transport writes it
    if is_depth and form.lstrip().startswith("32FC1"):
        note = "Its inverse depth is turned into metres."
        return _pixels_part(topic, lambda m: distances(message_bytes(m)), probe, "m", note)
    if is_depth:
        data_of = _depth_png
    name, shape, dtype = _picture(data_of(probe))
    if name not in ("PNG", "JPEG"):
        note = f"Its {name} pictures are decoded."
        return _pixels_part(topic, lambda m: decode_image(message_bytes(m)), probe, None, note)
    unit = "mm" if is_depth or (dtype == "uint16" and shape[2] == 1) else None
    stream = Stream(topic, "pictures", dtype, shape, depth_unit=unit)
    return Part(stream, lambda message: _same_picture(data_of(message), name, shape))


def _depth_png(message: Any) -> bytes:  # noqa: ANN401  # a compressed depth image
    return png_of(message_bytes(message))


def _pixels_part(
    topic: str,
    take: Callable[[Any], NDArray[Any]],
    probe: Any,  # noqa: ANN401  # a message
    depth_unit: str | None,
    note: str,
) -> Part:
    """Return the stream of images that are decoded, each of the shape of the first."""
    first = take(probe)
    dtype, shape = str(first.dtype), first.shape

    def checked(message: Any) -> NDArray[Any]:  # noqa: ANN401
        image = take(message)
        if image.shape != shape:
            raise SourceError(f"has an image of shape {image.shape}, the first one {shape}")
        return image

    stream = Stream(topic, "images", dtype, shape, depth_unit=depth_unit, note=note)
    return Part(stream, checked)


def _picture(data: bytes) -> tuple[str, tuple[int, int, int], str]:
    """Return kind, shape and dtype of a picture, from its first bytes."""
    try:
        name, size = read_header(data)
        deep = name == "PNG" and data[24] == 16  # bits per sample
        dtype = "uint16" if deep else "uint8"
        if name not in ("PNG", "JPEG"):
            dtype = str(decode_image(data).dtype)
    except CorruptFileError as error:
        raise SourceError(f"its first message is not a picture: {error}") from error
    return name, (size.height, size.width, size.channels), dtype


def _same_picture(data: bytes, name: str, shape: tuple[int, ...]) -> bytes:
    try:
        found, size = read_header(data)
    except CorruptFileError as error:
        raise SourceError(f"is not a whole picture: {error}") from error
    if (found, tuple(size)) != (name, shape):
        raise SourceError(
            f"is a {found} picture of shape {tuple(size)}, the first one {name} {shape}"
        )
    return data


def _field(message: Any, name: str, default: Any = None) -> Any:  # noqa: ANN401
    return (
        message.get(name, default) if isinstance(message, dict) else getattr(message, name, default)
    )


def _text(message: Any, name: str) -> str:  # noqa: ANN401
    return str(_field(message, name, ""))


def _number(message: Any, name: str) -> int:  # noqa: ANN401
    return int(_field(message, name, 0))


# Depth images that ROS compressed: a PNG behind a header of twelve bytes. Pure.

HEADER_BYTES = 12
_HEADER = struct.Struct("<iff")
_PNG = b"\x89PNG\r\n\x1a\n"


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


# Raw images of ROS → arrays. Pure: bytes in, pixels out.

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
