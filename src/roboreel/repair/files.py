"""Repairs of whole files: moved to their places, set aside, or rebuilt."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roboreel.check.structure import find_misplaced
from roboreel.errors import DatasetError
from roboreel.format.edits import Difference, FileEdit
from roboreel.repair.rescue.rebuild import find_row_groups, write_with_footer
from roboreel.repair.unlisted import find_unlisted

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.repair.draft import Draft
    from roboreel.repair.rescue.rebuild import Found


def cure_footers(draft: Draft) -> None:
    """Complete data files that lack their footer, with the columns of another data file."""
    found = draft.asked("RR201")
    like = next((file.path for file in draft.data_files() if file.num_rows), None)
    for one in found:
        if one.file is None or like is None:
            continue
        root = draft.context.root
        try:
            groups = find_row_groups(root / one.file, like=root / like)
        except (DatasetError, OSError):
            continue  # it stays a finding
        if groups.rows:
            draft.write(_completed(one.file, groups), ("RR201",))
            draft.cure([one])


def _completed(file: str, found: Found) -> FileEdit:
    lost = f"; {found.reason}" if found.reason else ""
    new = f"{found.rows:,} rows in {len(found.row_groups):,} row groups{lost}"
    footer = Difference("footer", "missing", new)
    return FileEdit(file, (footer,), partial(_complete, file, found), found.bytes_kept)


def _complete(file: str, found: Found, root: Path, out: Path) -> None:
    write_with_footer(root / file, found, out)


def cure_strays(draft: Draft, *, set_aside: bool) -> None:
    """Set aside what no episode uses, and what is no part of the metadata.

    Args:
        draft: The repair.
        set_aside: Whether frames of episodes that are not listed are set aside too, with their
            videos. They may be the only copy of a recording.
    """
    found = draft.asked("RR105", "RR106")
    strays = {one.file for one in found if one.code == "RR105" and one.file is not None}
    if draft.manifest.version == "v3.0" and any(file.endswith(".parquet") for file in strays):
        # An episode may go on in a file that the table does not name.
        every = range(len(draft.manifest.episodes))
        used = {file for one in every for file in draft.context.rows_elsewhere(one)}
        strays -= used
        found = [one for one in found if one.file not in used]
    draft.unlisted = find_unlisted(draft, strays)
    if not set_aside:
        stay = {file for one in draft.unlisted for file in (one.file, *dict(one.videos).values())}
        found = [one for one in found if one.file not in stay]
    for one in found:
        if one.file is not None:
            size = draft.context.listing.size_bytes(one.file)
            leaves = FileEdit(one.file, size_bytes=size, how="set aside")
            draft.write(leaves, (one.code,))
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
        size = listing.size_bytes(there)
        draft.write(FileEdit(named, size_bytes=size, how="moved", source=there), ("RR110",))
    draft.cure(found)
