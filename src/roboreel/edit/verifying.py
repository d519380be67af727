"""A new dataset compared with those that it was made from: every row, every packet."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit.rows import read_piece
from roboreel.edit.sources import Source
from roboreel.errors import EditError
from roboreel.format.counters import COUNTERS
from roboreel.io.reading import SpanReader
from roboreel.parquet.row_stream import RowReader
from roboreel.parquet.to_arrow import same_values
from roboreel.video.mp4 import read_packet_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.edit.context import EditContext
    from roboreel.edit.layout import FileTarget
    from roboreel.edit.plan import EditPlan
    from roboreel.video.packet_table import PacketTable

_PORTION_BYTES = 2**22
_NOT_COMPARED = {*COUNTERS, "subtask_index"}


def verify_copy(
    plan: EditPlan, *, on_progress: Callable[[str, int, int], None] = lambda *_: None
) -> None:
    """Compare a dataset that a plan wrote to a new folder with its sources.

    Rows must hold the same values, in all columns but those that count them, and images the same
    packets, unless they were encoded again.

    Args:
        plan: A plan that was applied.
        on_progress: Called with what is compared, how many files are done, and how many there are.

    Raises:
        EditError: Something differs. That is a defect of this library.
    """
    if plan.out is None:
        raise ValueError("Only a new dataset can be compared with the old one.")
    new, context = Source(plan.out), plan.context
    for done, target in enumerate(plan.files):
        on_progress("Compared", done, len(plan.files))
        path, camera = plan.out / target.file, target.camera
        if camera is None:
            verify_rows(context, target, path, new.note_rows)
        elif target.how != "re-encoded":
            images = {number: new.images(camera, number) for number in target.pieces}
            verify_clips(context, target, path, images)


def verify_rows(
    context: EditContext,
    target: FileTarget,
    path: Path,
    note: Callable[[int, Any], None] = lambda *_: None,
) -> None:
    """Compare a data file that was written with the rows that it was made from.

    Args:
        context: The edit.
        target: The file.
        path: Where it is by now.
        note: Called with the number and the rows of each episode that was compared.

    Raises:
        EditError: A value differs.
    """
    row = 0
    with RowReader() as before, RowReader() as after:
        for number in target.pieces:
            piece, length = context.recipe.pieces[number], int(context.layout.length[number])
            if len(context.frames(number)) == piece.stop - piece.start:
                was = read_piece(context, piece, before)
                now = after.take(path, row, row + length)
                _compare_rows(context, number, was, now)
                note(number, now)
            row += length


def verify_clips(
    context: EditContext, target: FileTarget, path: Path, images: Mapping[int, NDArray[np.int64]]
) -> None:
    """Compare a video file that was put together with the packets that it was made from.

    Args:
        context: The edit.
        target: The file.
        path: Where it is by now.
        images: The images of each new episode, as their positions in the file.

    Raises:
        EditError: A packet differs.
    """
    table = read_packet_table(path)
    for number in target.pieces:
        _compare_packets(context, number, str(target.camera), path, table, images[number])


def _compare_rows(context: EditContext, number: int, was: Any, now: Any) -> None:  # noqa: ANN401  # Arrow tables
    piece = context.recipe.pieces[number]
    names = context.names(piece)
    for column in was.column_names:
        name = names.get(column, column)
        feature = context.features.get(str(name))
        shifted = feature is not None and feature.kind == "language" and not piece.is_whole
        if name is None or name in _NOT_COMPARED or shifted or name not in now.column_names:
            continue
        values, target = was.column(column), now.column(name)
        values = values if values.type.equals(target.type) else values.cast(target.type)
        if not same_values(values, target):
            raise _differs(context, number, str(name))


def _compare_packets(
    context: EditContext,
    number: int,
    camera: str,
    path: Path,
    table: PacketTable,
    images: NDArray[np.int64],
) -> None:
    piece = context.recipe.pieces[number]
    source, name = context.source(piece), context.old_name(piece, camera)
    was = source.span(name, piece.episode, piece.start, piece.stop)
    if table.via != "mp4" or was.table.via != "mp4":
        return  # copied whole, since no packet of it can be addressed
    old, new = was.packets, table.shown[images].astype(np.int64)
    size = table.size[new].astype(np.int64)
    if not np.array_equal(was.table.size[old], size):
        raise _differs(context, number, camera)
    ours, theirs = was.table.offset[old], table.offset[new]
    with SpanReader(was.path, "video file") as before, SpanReader(path, "video file") as after:
        for first, last in _portions(size):
            span = slice(first, last)
            if _read(before, ours[span], size[span]) != _read(after, theirs[span], size[span]):
                raise _differs(context, number, camera)


def _read(file: SpanReader, offset: NDArray[np.int64], size: NDArray[np.int64]) -> bytes:
    """Return the bytes of packets, one after another."""
    stop = offset + size
    if (offset[1:] == stop[:-1]).all():
        return bytes(file.read(int(offset[0]), int(stop[-1])))
    spans = zip(offset.tolist(), stop.tolist(), strict=True)
    return b"".join(bytes(file.read(start, end)) for start, end in spans)


def _portions(size: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield spans of packets that have some megabytes together."""
    if int(size.sum()) <= _PORTION_BYTES:
        yield 0, len(size)
        return
    portion = np.cumsum(size) // _PORTION_BYTES
    bounds = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(size)]
    yield from pairwise(bounds)


def _differs(context: EditContext, number: int, name: str) -> EditError:
    return EditError(
        f"{name!r} of the new episode {number} is not what it was in the old dataset. Do not use the "
        f"new one, and report this: {str(context.source(context.recipe.pieces[number]).root)!r}."
    )
