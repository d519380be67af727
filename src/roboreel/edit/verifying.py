"""A new dataset compared with those that it was made from: every row, every packet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit.sources import Source
from roboreel.errors import EditError
from roboreel.format.counters import COUNTERS
from roboreel.spans.reading import SpanReader
from roboreel.storage.row_stream import RowReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.edit.plan import EditPlan
    from roboreel.video.packet_table import PacketTable

__all__ = ["verify_copy"]

_NOT_COMPARED = {*COUNTERS, "subtask_index"}


def verify_copy(
    plan: EditPlan, *, on_progress: Callable[[str, int, int], None] = lambda *_: None
) -> None:
    """Compare a dataset that a plan wrote to a new folder with its sources.

    Rows must hold the same values, in all columns but those that count them, and images the same
    packets, unless they were encoded again.

    Args:
        plan: A plan that was applied.
        on_progress: Called with what is compared, how many episodes are done, and how many there
            are.

    Raises:
        EditError: Something differs. That is a defect of this library.
    """
    if plan.out is None:
        raise ValueError("Only a new dataset can be compared with the old one.")
    new, context = Source(plan.out), plan.context
    encoded = {
        (one.camera, number)
        for one in context.layout.videos
        for number in one.pieces
        if one.rung == "re-encoded"
    }
    pieces = context.recipe.pieces
    with RowReader() as before, RowReader() as after:
        for number, piece in enumerate(pieces):
            on_progress("Compared", number, len(pieces))
            if len(context.frames(number)) == piece.stop - piece.start:
                was = _rows(before, context.source(piece), piece.episode, piece.start, piece.stop)
                now = _rows(after, new, number, 0, piece.stop - piece.start)
                _compare_rows(plan, number, was, now)
            for camera in new.manifest.video_files:
                if (camera, number) not in encoded:
                    _compare_packets(plan, new, number, camera)


def _compare_rows(plan: EditPlan, number: int, was: Any, now: Any) -> None:  # noqa: ANN401  # Arrow tables
    piece = plan.context.recipe.pieces[number]
    names = plan.context.names(piece)
    for column in was.column_names:
        name = names.get(column, column)
        feature = plan.context.features.get(str(name))
        shifted = feature is not None and feature.kind == "language" and not piece.is_whole
        if name is None or name in _NOT_COMPARED or shifted or name not in now.column_names:
            continue
        target = now.column(name)
        if not was.column(column).cast(target.type).equals(target):
            raise _differs(plan, number, str(name))


def _rows(reader: RowReader, source: Source, episode: int, start: int, stop: int) -> Any:  # noqa: ANN401
    episodes = source.manifest.episodes
    path = source.root / source.manifest.data_files[int(episodes.data_file[episode])]
    first = source.first_row(episode)
    return reader.take(path, first + start, first + stop)


def _compare_packets(plan: EditPlan, new: Source, number: int, camera: str) -> None:
    piece = plan.context.recipe.pieces[number]
    source, name = plan.context.source(piece), plan.context.old_name(piece, camera)
    was = source.span(name, piece.episode, piece.start, piece.stop)
    images = new.images(camera, number)
    path = new.root / new.video_file(camera, number)
    table = new.frames.videos.table(path)
    if table.via != "mp4" or was.table.via != "mp4":
        return  # copied whole, since no packet of it can be addressed
    old = _bytes(was.path, was.table, was.packets)
    copied = _bytes(path, table, table.shown[images].astype(np.int64))
    if any(ours != theirs for ours, theirs in zip(old, copied, strict=True)):
        raise _differs(plan, number, camera)


def _bytes(path: Path, table: PacketTable, packets: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the bytes of packets, one by one; those that lie together are read together."""
    offset, size = table.offset[packets], table.size[packets].astype(np.int64)
    stop = offset + size
    with SpanReader(path, "video file") as file:
        if (offset[1:] == stop[:-1]).all():
            block = memoryview(file.read(int(offset[0]), int(stop[-1])))
            base = int(offset[0])
            for first, last in zip(offset.tolist(), stop.tolist(), strict=True):
                yield bytes(block[first - base : last - base])
            return
        for first, last in zip(offset.tolist(), stop.tolist(), strict=True):
            yield bytes(file.read(first, last))


def _differs(plan: EditPlan, number: int, name: str) -> EditError:
    return EditError(
        f"{name!r} of episode {number} is not what it was in the old dataset. Do not use the new one, "
        f"and report this: {str(plan.out)!r}."
    )
