"""Recovery of what a killed process left of a fragmented video file."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.spans.reading import SpanReader
from roboreel.video import boxes
from roboreel.video.remux import cut_video, image_ticks

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["first_images", "whole_fragments"]

_BLOCK_BYTES = 1024**2


def whole_fragments(path: Path, out: Path) -> int:
    """Copy a fragmented file up to its last whole fragment, and return how many images it has.

    Args:
        path: The file that was being written when the process died.
        out: Where to write. Not created if there is no whole fragment.
    """
    stop = _end_of_fragments(path)
    if stop == 0:
        return 0
    with SpanReader(path) as source, out.open("wb") as target:
        for start in range(0, stop, _BLOCK_BYTES):
            target.write(source.read(start, min(start + _BLOCK_BYTES, stop)))
    return len(image_ticks(out))


def first_images(path: Path, count: int, out: Path) -> None:
    """Copy the first images of a video file to a new file, without decoding them."""
    ticks = image_ticks(path)
    cut_video(path, int(ticks[0]), int(ticks[count - 1]) + 1, out)


def _end_of_fragments(path: Path) -> int:
    """Return where the last whole fragment ends; 0 if there is none."""
    end = 0
    # A recording of many hours has more boxes than are accepted in files of unknown origin.
    with SpanReader(path) as file, suppress(CorruptFileError):
        for box in boxes.file_boxes(file, limit=file.size_bytes):
            if box.kind == b"mdat" and box.is_whole:
                end = box.stop
    return end
