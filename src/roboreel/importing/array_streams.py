"""What an array of a file holds: numbers, texts, pixels, depth, or encoded pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.importing.recording import Stream, picture_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from roboreel.importing.array_tree import Leaf
    from roboreel.importing.recording import Values

_CHANNELS = (1, 3, 4)
_LEAST_SIDE = 8
_MOST_VALUE_BYTES = 1024**3
_PICTURE_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")

Scale = Literal["", "0-1", "0-255"]


@dataclass(frozen=True, slots=True)
class Column:
    """A stream, and how its values come out of an array."""

    stream: Stream
    channels_first: bool = False
    """Whether images are ``(C, H, W)`` in the file."""
    scale: Scale = ""
    """The range of pixels that are stored as floating point."""


def classify(name: str, leaf: Leaf, sample: Callable[[], NDArray[Any]]) -> Column:
    """Return what stream an array is; ``other`` with a reason if it cannot become a feature.

    Args:
        name: What to call the stream.
        leaf: The array.
        sample: Reads a few rows, which tell pictures from bytes and the range of pixels.
    """
    shape, dtype = leaf.shape[1:], leaf.dtype
    if leaf.kind == "other" or not leaf.shape:
        return _other(name, leaf, leaf.note or "It is one value, not one for each step.")
    if leaf.kind == "text" and not _has_pictures(sample):
        return Column(Stream(name, "text", source_type="text"))
    # Some recorders keep JPEG as texts of fixed length, RoboTwin for one.
    if leaf.kind in ("bytes", "text") or (
        dtype == "uint8" and len(shape) == 1 and _has_pictures(sample)
    ):
        return _pictures(name, leaf, sample)
    value_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if value_bytes > _MOST_VALUE_BYTES:
        return _other(name, leaf, f"One value of it has {value_bytes:,} bytes.")
    image = _images(name, leaf, sample)
    if image is not None:
        return image
    try:
        return Column(Stream(name, "numbers", dtype, shape, source_type=dtype))
    except SourceError as error:
        return _other(name, leaf, str(error))


def to_values(column: Column, rows: NDArray[Any], where: str) -> Values:
    """Return rows of an array as values of the stream.

    Args:
        column: What the array is.
        rows: As they are in the file, ``(N, …)``.
        where: What they belong to, for errors.

    Raises:
        SourceError: Pixels lie outside the range that was recognised.
    """
    stream = column.stream
    if stream.kind == "text":
        return [plain_text(value) for value in rows.tolist()]
    if stream.kind == "pictures":
        return [encoded_bytes(row) for row in rows]
    if stream.kind == "images":
        rows = _to_images(column, rows, where)
    values: NDArray[Any] = np.ascontiguousarray(rows.reshape(len(rows), *stream.shape))
    return values.astype(stream.dtype, copy=False)


def encoded_bytes(row: object) -> bytes:
    """Return a picture's bytes without the zeros that fill the row of an array."""
    data = row.tobytes() if isinstance(row, np.ndarray) else bytes(row)  # type: ignore[call-overload]
    # A picture never ends with a zero byte: JPEG ends with an end marker, PNG with a checksum.
    return bytes(data.rstrip(b"\0"))


def plain_text(value: object) -> str:
    """Return a text that a file keeps as text or as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _has_pictures(sample: Callable[[], NDArray[Any]]) -> bool:
    rows = sample()
    return len(rows) > 0 and all(
        isinstance(row[:8], bytes | np.ndarray) and bytes(row[:8]).startswith(_PICTURE_STARTS)
        for row in rows
    )


def _pictures(name: str, leaf: Leaf, sample: Callable[[], NDArray[Any]]) -> Column:
    pictures = [encoded_bytes(row) for row in sample()]
    if not pictures or not all(data.startswith(_PICTURE_STARTS) for data in pictures):
        return _other(name, leaf, "Its bytes are not pictures of JPEG or PNG.")
    try:
        return Column(picture_stream(name, pictures[0]))
    except CorruptFileError as error:
        return _other(name, leaf, str(error))


def pixel_stream(name: str, dtype: str, shape: tuple[int, ...]) -> Stream | None:
    """Return the stream of arrays that are depth, or colours of 8 bits with channels last.

    None if they are neither, or if only their values could tell.

    Args:
        name: Of the stream. What is called depth is depth.
        dtype: Of the elements.
        shape: Of one value.
    """
    depth = _depth(name, dtype, shape)
    if depth is not None:
        return depth
    if dtype == "uint8" and len(shape) == 3 and shape[2] in (1, 3) and min(shape[:2]) >= 16:
        return Stream(name, "images", dtype, shape, source_type=dtype)
    return None


def _images(name: str, leaf: Leaf, sample: Callable[[], NDArray[Any]]) -> Column | None:
    """Return the stream of an array of pixels; None if it is not one."""
    shape, dtype = leaf.shape[1:], leaf.dtype
    depth = _depth(name, dtype, shape)
    if depth is not None:
        return Column(depth)
    if dtype == "uint8" and len(shape) == 2 and min(shape) >= 16:
        return Column(Stream(name, "images", dtype, (*shape, 1), source_type=dtype))
    if len(shape) != 3 or (dtype != "uint8" and not dtype.startswith("float")):
        return None
    first = shape[0] in _CHANNELS and shape[2] not in _CHANNELS
    size = (shape[1], shape[2], shape[0]) if first else shape
    if size[2] not in _CHANNELS or min(size[:2]) < _LEAST_SIDE:
        return None
    notes = ["Channels came first in the file."] if first else []
    scale: Scale = ""
    if dtype != "uint8":
        scale = "0-1" if _highest(sample()) <= 1 else "0-255"
        if size[2] not in (1, 3) or _highest(sample()) > 255 or _highest(-sample()) > 0:
            return None
        notes.append(f"Floating point from {scale.replace('-', ' to ')} becomes 8 bits.")
    if size[2] == 4:
        notes.append("Opacity, the fourth channel, is left out.")
    shown = (*size[:2], 3 if size[2] == 4 else size[2])
    stream = Stream(name, "images", "uint8", shown, source_type=dtype, note=" ".join(notes))
    return Column(stream, channels_first=first, scale=scale)


def _depth(name: str, dtype: str, shape: tuple[int, ...]) -> Stream | None:
    """Return the stream of an array of depth; None if it is not one."""
    called = "depth" in name.lower()
    whole = dtype == "uint16" and (called or len(shape) == 2)
    one_channel = len(shape) == 2 or (len(shape) == 3 and shape[2] == 1)
    if not one_channel or min(shape[:2]) < 16:
        return None
    if not whole and not (called and dtype.startswith("float")):
        return None
    stored, unit, word = ("uint16", "mm", "millimetres") if whole else ("float32", "m", "metres")
    note = f"{dtype} depth is taken for {word}."
    size = (*shape[:2], 1)
    return Stream(name, "images", stored, size, depth_unit=unit, source_type=dtype, note=note)


def _to_images(column: Column, rows: NDArray[Any], where: str) -> NDArray[Any]:
    if column.channels_first:
        rows = rows.transpose(0, 2, 3, 1)
    if rows.ndim == 4 and rows.shape[3] == 4:
        rows = rows[..., :3]
    if not column.scale:
        return rows
    top = 1 if column.scale == "0-1" else 255
    if rows.size and not (rows.min() >= 0 and rows.max() <= top):
        raise SourceError(
            f"Pixels of {column.stream.name!r} were taken for {column.scale}, and reach from "
            f"{rows.min():g} to {rows.max():g}: {where}."
        )
    scaled = rows * 255 if top == 1 else rows
    whole: NDArray[Any] = np.rint(scaled).astype(np.uint8)
    return whole


def _highest(rows: NDArray[Any]) -> float:
    return float(rows.max()) if rows.size else 0.0


def _other(name: str, leaf: Leaf, note: str) -> Column:
    return Column(Stream(name, "other", source_type=leaf.dtype or leaf.kind, note=note))
