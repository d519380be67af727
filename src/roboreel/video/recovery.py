"""Whether a damaged MP4 file can be read in part, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.spans.reading import SpanReader
from roboreel.video import boxes

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.video.boxes import FileBox

__all__ = ["Recovery", "recovery_of"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What can be had of a video file."""

    fragments: int
    """Whole fragments, which `whole_fragments` copies; 0 if nothing can be recovered that way."""
    reason: str
    """What is wrong, as a sentence; empty if the outermost boxes are whole."""


def recovery_of(path: Path) -> Recovery:
    """Return what can be had of a video file, from the headers of its outermost boxes.

    An MP4 file lists its packets in one place, the ``moov`` box, which most writers write last.
    Without it nobody knows where an image begins. In a fragmented file each fragment lists its own.

    Raises:
        MissingFileError: There is no such file.
    """
    with SpanReader(path, "video file") as file:
        try:
            # A recording of many hours has more boxes than are accepted elsewhere.
            found = list(boxes.file_boxes(file, limit=2**22))
        except CorruptFileError as error:
            return Recovery(0, f"Not an MP4 file: {error}")
    kinds = [box.kind for box in found]
    if b"moov" not in kinds:
        return Recovery(0, _without_index(found))
    fragments = _whole_fragments(found)
    cut = not found[-1].is_whole
    if not cut:
        return Recovery(fragments, "")
    if b"moof" in kinds:
        return Recovery(fragments, f"The file ends inside a fragment; {fragments} are whole.")
    return Recovery(
        0, "The file ends before its last packets. Download or record it again to have all images."
    )


def _without_index(found: list[FileBox]) -> str:
    if not any(box.kind in (b"ftyp", b"mdat") for box in found):
        return "This is not an MP4 file."
    return (
        "The file has no index ('moov'): it was cut off, or its writer died before writing it. "
        "Without one nobody can tell where the images begin, so none can be recovered. Download or "
        "record the video again."
    )


def _whole_fragments(found: list[FileBox]) -> int:
    return sum(
        first.kind == b"moof" and second.kind == b"mdat" and second.is_whole
        for first, second in pairwise(found)
    )
