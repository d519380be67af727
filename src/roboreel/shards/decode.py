"""Stored values with their images and videos decoded, at any depth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.image import decode_image
from roboreel.io.budget import process_budget
from roboreel.shards.features import FeatureType, Image, Sequence, Struct, VideoPath
from roboreel.video.clip import Clip
from roboreel.video.reader import ClipRequest, VideoReader

if TYPE_CHECKING:
    from numpy.typing import NDArray

Alpha: TypeAlias = Literal["keep", "drop", "refuse"]
"""What becomes of transparency: one more channel, nothing, or an error."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What is decoded, and how."""

    alpha: Alpha = "keep"
    videos: bool = False
    """Whether the files behind video paths are decoded."""
    root: Path | None = None
    """The folder that relative paths of videos start from; None for the working directory."""

    def __post_init__(self) -> None:
        if self.alpha not in ("keep", "drop", "refuse"):
            raise ValueError(f"alpha is 'keep', 'drop' or 'refuse', not {self.alpha!r}.")


def decode_value(feature: FeatureType, value: Any, place: str, how: Decoding) -> Any:  # noqa: ANN401  # of any type
    """Return one value with its images decoded.

    Args:
        feature: What the value is.
        value: The value as stored.
        place: Where it comes from, for errors.
        how: What is decoded.

    Raises:
        CorruptFileError: An image cannot be decoded, or has transparency that is refused.
    """
    match feature:
        case _ if value is None:
            return None
        case Image():
            return _decode_image(value, place, how.alpha)
        case VideoPath() if how.videos:
            return _decode_video(value, how.root)
        case Struct(fields):
            return {
                name: decode_value(of, value[name], f"{name!r} in {place}", how)
                for name, of in fields.items()
            }
        case Sequence(Image() | VideoPath() | Struct() | Sequence() as of):
            return decode_column(of, value, place, how)
        case _:
            return value


def decode_column(feature: FeatureType, column: Any, place: str, how: Decoding) -> Any:  # noqa: ANN401  # of any type
    """Return a column with its images decoded; see `decode_value`."""
    if isinstance(feature, Struct) and isinstance(column, dict):
        return {
            name: decode_column(of, column[name], f"{name!r} in {place}", how)
            for name, of in feature.fields.items()
        }
    if isinstance(column, list):
        return [
            decode_value(feature, value, f"value {number} of {place}", how)
            for number, value in enumerate(column)
        ]
    return column


def _decode_image(encoded: bytes, place: str, alpha: Alpha) -> NDArray[Any]:
    try:
        pixels = decode_image(encoded, alpha=False if alpha == "drop" else None)
    except CorruptFileError as error:
        raise CorruptFileError(f"Cannot decode the image in {place}: {error}") from error
    if alpha == "refuse" and pixels.shape[2] in (2, 4):
        raise CorruptFileError(
            f"The image in {place} has transparency. Use decoded(alpha='keep') or 'drop'."
        )
    return pixels


def _decode_video(path: str, root: Path | None) -> NDArray[np.uint8]:
    """Return all images of a video file, ``(T, H, W, 3)``."""
    file = Path(path) if root is None else root / path
    reader = VideoReader(budget=process_budget(), threads=1)
    table = reader.table(file)
    count = len(table.shown)
    first_s = float(table.ticks[0] * table.time_base) if count else 0.0
    clip = Clip(first_s, math.inf, count, fps=1.0, total=count)
    frames = np.arange(count)
    out = np.empty((count, *table.coding.image_size, 3), np.uint8)
    request = ClipRequest(file, clip, frames, frames, episode=0, camera=path)
    reader.read(reader.plan([request]), out, layout="hwc")
    return out
