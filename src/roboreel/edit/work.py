"""What there is to do for an edit, in pieces that can be done anywhere; done, and put together."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from roboreel.edit.clips import write_clips
from roboreel.edit.encoding import encode_span, join_encoded
from roboreel.edit.making import Made, finish_dataset
from roboreel.edit.rows import RowsResult, data_layout, write_rows
from roboreel.edit.statistics import image_statistics, looks_at_images, wanted_statistics
from roboreel.edit.verifying import verify_clips, verify_rows
from roboreel.files import copy_file, link_file
from roboreel.jobs.cutting import TASK_S, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from roboreel.commit import Commit, NewFolder
    from roboreel.edit.context import EditContext
    from roboreel.edit.layout import FileTarget
    from roboreel.edit.making import Stage
    from roboreel.edit.rows import StatsWanted
    from roboreel.parquet.row_stream import Layout
    from roboreel.schema import Manifest

# What one core does in a second, roughly: costs balance tasks, and promise nothing.
_ENCODED_PIXELS_PER_S, _DECODED_PIXELS_PER_S = 2e7, 8e7
_COPIED_BYTES_PER_S, _ROW_BYTES_PER_S = 4e8, 3e7
_PIECE_S = 5e-4

Kind = Literal["video", "encode", "rows", "look"]
"""A whole video file; a part of one that is encoded; a whole data file; images whose statistics are
wanted."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A file, a part of one, or images to look at."""

    kind: Kind
    target: int
    """Which of the layout's videos, or of its data files; of images to look at, 0."""
    start: int
    """First of the target's episodes; of images to look at, number of the first episode."""
    stop: int
    cost_s: float
    """About how many seconds of one core it takes."""


class Work:
    """The files of an edit, made one by one in any order, here or elsewhere.

    Args:
        context: The edit.
        columns: Those of the new data files, if they are known.
        verify: Whether copies are read back and compared.
    """

    def __init__(
        self, context: EditContext, columns: Layout | None = None, *, verify: bool = False
    ) -> None:
        self.context, self._verify = context, verify
        self.columns = columns or data_layout(context)

    @cached_property
    def wanted(self) -> StatsWanted:
        """Which statistics are computed from the rows."""
        return wanted_statistics(self.context)

    @cached_property
    def items(self) -> list[WorkItem]:
        """What there is to do, in the order in which the results are joined."""
        return list_work(self.context)

    def file_of(self, item: WorkItem) -> FileTarget:
        """Return the file that an item makes, wholly or in part."""
        layout = self.context.layout
        return (layout.data if item.kind == "rows" else layout.videos)[item.target]

    def make(self, item: WorkItem, place: Path) -> Any:  # noqa: ANN401  # by the kind of item
        """Make one file, or a part of one, and return what was learnt; nothing is synced.

        Args:
            item: What to make.
            place: Where to write, without the ending, by which writers choose a format.

        Returns:
            Of a video, where its episodes are; of data, what its rows say; of images, statistics.
        """
        context = self.context
        if item.kind == "look":
            return {n: image_statistics(context, n) for n in range(item.start, item.stop)}
        target = self.file_of(item)
        out = part_of(target, place)
        if item.kind == "encode":
            return encode_span(context, target, (item.start, item.stop), out)
        if target.how == "copied":
            copy_file(context.old_file(target), out)
        if item.kind == "rows":
            return self._rows(target, out)
        places = write_clips(context, target, out)
        if self._verify and target.how == "remuxed":
            # Behind an edit list the file begins with the first image.
            firsts = {number: one.first or 0 for number, one in places.items()}
            length = context.layout.length
            images = {n: first + np.arange(int(length[n])) for n, first in firsts.items()}
            verify_clips(context, target, out, images)
        return places

    def _rows(self, target: FileTarget, out: Path) -> RowsResult:
        written = out if target.how == "rewritten" else None
        if written is None and not self.wanted.total and not self.wanted.every:
            return RowsResult()
        result = write_rows(self.context, target, self.columns, self.wanted, written)
        if self._verify and written is not None:
            verify_rows(self.context, target, out)
        return result

    def assemble(
        self, places: Sequence[Path], result: Callable[[int], Any], stage: Stage
    ) -> Manifest:
        """Put what was made in its place, and describe it; nothing is synced.

        Args:
            places: Where each item was made. Files stay there too, under a second name.
            result: Takes the number of an item, and returns what was learnt.
            stage: Where to write each file; called in the order in which they are to appear.

        Raises:
            EditError: A row would show another image than before, or none.
        """
        made = Made()
        encoded: dict[int, list[Path]] = {}
        for number, item in enumerate(self.items):
            if item.kind == "look":
                made.looks |= result(number)
                continue
            target = self.file_of(item)
            part = part_of(target, places[number])
            if item.kind == "encode":
                encoded.setdefault(item.target, []).append(part)
                if item.stop == len(target.pieces):
                    out = made.files[target.file] = stage(target.file)
                    parts = encoded.pop(item.target)
                    made.add_clips(target, join_encoded(self.context, target, parts, out))
                continue
            if target.how != "kept":
                made.files[target.file] = stage(target.file)
                linked = self.context.old_file(target) if target.how == "linked" else part
                link_file(linked, made.files[target.file])
            if item.kind == "rows":
                made.rows.add(result(number))
            else:
                made.add_clips(target, result(number))
        return finish_dataset(self.context, made, stage)

    def make_all(
        self, target: Commit | NewFolder, on_progress: Callable[[str, int, int], None]
    ) -> None:
        """Make everything here and now."""
        with tempfile.TemporaryDirectory(dir=target.scratch) as scratch:
            places = [Path(scratch, str(number)) for number in range(len(self.items))]
            results = []
            for number, item in enumerate(self.items):
                on_progress("Files", number, len(self.items))
                results.append(self.make(item, places[number]))
            self.assemble(places, results.__getitem__, target.add)


def part_of(target: FileTarget, place: Path) -> Path:
    """Return the path of a file in the making, whose ending tells writers the format."""
    return place.with_suffix(Path(target.file).suffix)


def list_work(context: EditContext) -> list[WorkItem]:
    """Return all tasks of an edit, in the order in which their results are joined."""
    looks = _looks(context) if looks_at_images(context) else ()
    return [*_videos(context), *_rows(context), *looks]


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
        if target.how == "re-encoded":
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
