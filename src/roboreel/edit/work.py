"""What there is to do for an edit, in pieces that can be done anywhere. Pure: no file is opened here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from roboreel.jobs.cutting import TASK_S, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.edit.context import EditContext
    from roboreel.edit.targets import FileTarget

# What one core does in a second, roughly: costs balance tasks, and promise nothing.
_ENCODED_PIXELS_PER_S, _DECODED_PIXELS_PER_S = 2e7, 8e7
_COPIED_BYTES_PER_S, _ROW_BYTES_PER_S = 4e8, 3e7
_PIECE_S = 5e-4


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A file, a part of one, or images to look at."""

    kind: Literal["video", "encode", "rows", "look"]
    """A whole video file; a part of one that is encoded; a whole data file; images whose statistics
    are wanted."""
    target: int
    """Which of the layout's videos, or of its data files; of images to look at, 0."""
    start: int
    """First of the target's episodes; of images to look at, number of the first episode."""
    stop: int
    cost_s: float
    """About how many seconds of one core it takes."""


def list_work(context: EditContext, *, looks: bool) -> list[WorkItem]:
    """Return all tasks of an edit, in the order in which their results are joined.

    Args:
        context: The edit.
        looks: Whether to compute statistics of images that are still missing.
    """
    return [*_videos(context), *_rows(context), *(_looks(context) if looks else ())]


def encoded_spans(context: EditContext, target: FileTarget) -> list[tuple[int, int]]:
    """Return the episodes of a file that are encoded together, as spans of its pieces.

    A part takes about as long as a task should, and is whole episodes. It is the same wherever the
    file is made, so that its bytes are.
    """
    cost = _encoding_s(context, target)
    return list(pairwise(cut(cost, np.arange(len(cost)), TASK_S).tolist()))


def _encoding_s(
    context: EditContext, target: FileTarget
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    pixels = math.prod(context.features[str(target.camera)].shape[:2])
    frames = context.layout.length[list(target.pieces)].astype(np.float64)
    return frames * (pixels / _ENCODED_PIXELS_PER_S)


def _videos(context: EditContext) -> Iterator[WorkItem]:
    for place, target in enumerate(context.layout.videos):
        if target.rung == "re-encoded":
            cost = _encoding_s(context, target)
            for start, stop in encoded_spans(context, target):
                yield WorkItem("encode", place, start, stop, float(cost[start:stop].sum()))
            continue
        seconds = _PIECE_S * len(target.pieces) + target.written_bytes / _COPIED_BYTES_PER_S
        yield WorkItem("video", place, 0, len(target.pieces), seconds)


def _rows(context: EditContext) -> Iterator[WorkItem]:
    for place, target in enumerate(context.layout.data):
        seconds = _PIECE_S * len(target.pieces) + target.size_bytes / _ROW_BYTES_PER_S
        yield WorkItem("rows", place, 0, len(target.pieces), seconds)


def _looks(context: EditContext) -> Iterator[WorkItem]:
    """Yield spans of new episodes of which some images are decoded, about three each second."""
    cameras = [one for one in context.features.values() if one.is_camera]
    pixels = sum(math.prod(one.shape[:2]) for one in cameras)
    shown_s = context.layout.length / context.layout.fps
    cost = (1 + 3 * shown_s) * (pixels / _DECODED_PIXELS_PER_S)
    for start, stop in pairwise(cut(cost, np.arange(len(cost)), TASK_S).tolist()):
        yield WorkItem("look", 0, start, stop, float(cost[start:stop].sum()))
