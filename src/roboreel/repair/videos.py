"""Repairs of the index of video files: keyframes listed, and before the images."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roboreel.errors import DatasetError
from roboreel.format.edits import Difference, FileEdit
from roboreel.video.mp4 import read_packet_table
from roboreel.video.rewrite_index import rewrite_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roboreel.repair.draft import Draft
    from roboreel.video.packet_table import PacketTable


def cure_indexes(draft: Draft) -> None:
    """Write the indexes of videos anew. The images are copied as they are."""
    found = draft.asked("RR408", "RR411")
    if not found:
        return
    files = {one.file for one in found if one.code == "RR408"}
    late = any(one.code == "RR411" for one in found)
    done: set[str] = set()
    for _, file, _ in draft.context.video_files():
        table = _table(draft.context.root / file)
        if table is None or not (file in files or (late and table.index_at_end)):
            continue
        codes = ("RR408",) * (file in files) + ("RR411",) * late
        draft.write(_rewritten(draft, file, table), codes)
        done.add(file)
    draft.cure([one for one in found if one.file in done or (one.file is None and done)])


def _table(path: Path) -> PacketTable | None:
    try:
        return read_packet_table(path)
    except (DatasetError, OSError):
        return None  # a finding of its own


def _rewritten(draft: Draft, file: str, table: PacketTable) -> FileEdit:
    return FileEdit(
        file,
        tuple(_differences(table)),
        partial(_rewrite, file),
        draft.context.listing.size_bytes(file),
    )


def _differences(table: PacketTable) -> Iterator[Difference]:
    if not table.lists_keyframes:
        yield Difference("keyframes", "not listed", "listed")
    if table.index_at_end:
        yield Difference("index", "at the end", "before the images")


def _rewrite(file: str, root: Path, out: Path) -> None:
    rewrite_index(root / file, out)
