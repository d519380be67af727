"""What a killed process left of a fragmented video file."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from roboreel.video.remux import cut_video, image_ticks

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["first_images", "whole_fragments"]

_BLOCK_BYTES = 1024**2


def whole_fragments(path: Path, out: Path) -> int:
    """Copy a fragmented file up to its last fragment that is whole.

    Args:
        path: What was being written when the process died.
        out: Where to write; nothing is written if there is no whole fragment.

    Returns:
        How many images are in ``out``.
    """
    stop = _end_of_fragments(path)
    if stop == 0:
        return 0
    with path.open("rb") as source, out.open("wb") as target:
        while block := source.read(min(_BLOCK_BYTES, stop - source.tell())):
            target.write(block)
    return len(image_ticks(out))


def first_images(path: Path, count: int, out: Path) -> None:
    """Copy the first images of a video file to a file of their own, without decoding them."""
    ticks = image_ticks(path)
    cut_video(path, int(ticks[0]), int(ticks[count - 1]) + 1, out)


def _end_of_fragments(path: Path) -> int:
    """Return where the last whole fragment ends; 0 without any."""
    size, end, start = path.stat().st_size, 0, 0
    with path.open("rb") as file:
        while True:
            file.seek(start)
            header = file.read(16)
            if len(header) < 8:
                return end
            length, kind = struct.unpack(">I4s", header[:8])
            if length == 1 and len(header) == 16:
                (length,) = struct.unpack(">Q", header[8:])
            if length < 8 or start + length > size:
                return end
            start += length
            if kind == b"mdat":
                end = start
