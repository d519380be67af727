"""Messages that hold images: raw, as pictures, as depth, as packets of video."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.image import decode_image
from roboreel.image_headers import read_header
from roboreel.importing.recording import Stream
from roboreel.importing.ros.depth_pictures import distances, is_depth, png_of
from roboreel.importing.ros.nodes import getter
from roboreel.importing.ros.packets import codec_of
from roboreel.importing.ros.parts import Part
from roboreel.importing.ros.pixels import pixel_format, pixels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.importing.ros.nodes import Group

__all__ = [
    "camera_kind",
    "image_part",
    "message_bytes",
    "message_codec",
    "packets_stream",
    "picture_part",
]

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

    shape = take(probe).shape
    stream = Stream(topic, "images", form.dtype, shape, depth_unit=form.depth_unit, note=form.note)
    return Part(stream, _same_shape(take, shape))


def picture_part(topic: str, probe: Any) -> Part:  # noqa: ANN401  # a compressed image
    """Return the stream of a topic with compressed images. PNG and JPEG keep their bytes.

    Raises:
        SourceError: They are pictures of another kind, or the first one is not whole.
    """
    form = _text(probe, "format")
    data = message_bytes(probe)
    if is_depth(form):
        return _depth_part(topic, form, data)
    name, shape, dtype = _picture(data)
    if name in ("PNG", "JPEG"):
        unit = "mm" if dtype == "uint16" and shape[2] == 1 else None
        stream = Stream(topic, "pictures", dtype, shape, depth_unit=unit)
        return Part(stream, lambda message: _same_picture(message_bytes(message), name, shape))
    note = f"Its {name} pictures are decoded."
    stream = Stream(topic, "images", dtype, shape, note=note)
    return Part(stream, _same_shape(lambda message: decode_image(message_bytes(message)), shape))


def packets_stream(topic: str, codec: str, size: tuple[int, int]) -> Stream:
    """Return the stream of a topic with packets of video."""
    return Stream(topic, "packets", "uint8", (*size, 3), codec=codec)


def _depth_part(topic: str, form: str, data: bytes) -> Part:
    if form.lstrip().startswith("32FC1"):
        shape = distances(data).shape
        note = "Its inverse depth is turned into metres."
        stream = Stream(topic, "images", "float32", shape, depth_unit="m", note=note)
        return Part(stream, _same_shape(lambda message: distances(message_bytes(message)), shape))
    _, shape, dtype = _picture(png_of(data))
    stream = Stream(topic, "pictures", dtype, shape, depth_unit="mm")
    return Part(stream, lambda message: _same_picture(png_of(message_bytes(message)), "PNG", shape))


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


def _same_shape(take: Any, shape: tuple[int, ...]) -> Any:  # noqa: ANN401  # message → image
    def checked(message: Any) -> NDArray[Any]:  # noqa: ANN401
        image: NDArray[Any] = take(message)
        if image.shape != shape:
            raise SourceError(f"has an image of shape {image.shape}, the first one {shape}")
        return image

    return checked


def _field(message: Any, name: str, default: Any = None) -> Any:  # noqa: ANN401
    return (
        message.get(name, default) if isinstance(message, dict) else getattr(message, name, default)
    )


def _text(message: Any, name: str) -> str:  # noqa: ANN401
    return str(_field(message, name, ""))


def _number(message: Any, name: str) -> int:  # noqa: ANN401
    return int(_field(message, name, 0))
