"""Repairs of whole files: moved to their places, set aside, or rebuilt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.check.places import find_misplaced
from roboreel.repair.changes import aside, move

if TYPE_CHECKING:
    from roboreel.repair.draft import Draft

__all__ = ["cure_places", "cure_strays"]


def cure_strays(draft: Draft) -> None:
    """Set aside what no episode uses, and what is no part of the metadata."""
    found = draft.asked("RR105", "RR106")
    for one in found:
        if one.file is not None:
            size = draft.context.listing.size_bytes(one.file)
            draft.changes.append(aside(one.file, (one.code,), size))
    draft.cure(found)


def cure_places(draft: Draft) -> None:
    """Move files to where the path templates say: LeRobot looks for data nowhere else."""
    found = draft.asked("RR110")
    if not found:
        return
    manifest = draft.context.manifest
    sets = [manifest.data_files, *manifest.video_files.values()]
    listing = draft.context.listing
    missing = [path for files in sets for path in files.paths() if path not in listing]
    for named, there in find_misplaced(draft.context, missing).items():
        draft.changes.append(move(there, named, ("RR110",), listing.size_bytes(there)))
    draft.cure(found)
