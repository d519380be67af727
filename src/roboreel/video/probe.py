"""A video file as FFmpeg opens it, and what it says of its images."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError
from roboreel.video.container import open_container

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """The images of a video file."""

    height: int
    width: int
    codec: str
    """FFmpeg's name of the codec."""
    pix_fmt: str
    channels: int
    """Values of a pixel."""
    fps: Fraction
    has_audio: bool


@contextmanager
def open_video(path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield a file as FFmpeg's container, and its stream of images.

    Raises:
        CorruptFileError: It is not a video.
    """
    with open_container(path) as container:
        if not container.streams.video:
            raise CorruptFileError(f"The file has no video: {str(path)!r}.")
        yield container, container.streams.video[0]


def probe_video(path: Path) -> StreamInfo:
    """Return what a file says of its images; none is decoded.

    Raises:
        CorruptFileError: It is not a video.
    """
    with open_video(path) as (container, stream):
        context = stream.codec_context
        return StreamInfo(
            height=context.height,
            width=context.width,
            codec=context.codec.canonical_name,
            pix_fmt=str(context.pix_fmt),
            channels=len(context.format.components),
            fps=stream.base_rate,
            has_audio=bool(container.streams.audio),
        )
