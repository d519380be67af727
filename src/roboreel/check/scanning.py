"""The one pass over the data files, which all scans share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.check.data_file import DataFile
from roboreel.check.structure import pointer_finding
from roboreel.errors import DatasetError, MissingFileError
from roboreel.findings import finding
from roboreel.io.lfs import is_lfs_pointer
from roboreel.parquet.writing import starts_as_parquet
from roboreel.words import enumerated, name_episodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roboreel.check.checks import Outcome, Scan
    from roboreel.check.context import Context
    from roboreel.findings import Finding

PASS_CODES = ("RR201", "RR213")
"""What the pass itself finds: files and row groups that cannot be read."""


def scan_rows(
    context: Context, scans: Sequence[Scan], *, reads_values: bool = False
) -> Iterator[Outcome]:
    """Let scans look at every row of the wanted episodes' files, and yield what they say.

    Memory holds one block of one file at a time, with the counters of that file.

    Args:
        context: The dataset under check.
        scans: What to look for.
        reads_values: Whether to read all values, also if no scan looks at them.
    """
    files = files_in_order(context)
    for done, number in enumerate(files):
        context.report_progress("Data files", done, len(files))
        yield from scan_file(context, number, scans, reads_values=reads_values)
    context.report_progress("Data files", len(files), len(files))
    for scan in scans:
        yield from scan.finish()


def files_in_order(context: Context) -> list[int]:
    """Return the numbers of the data files with a wanted episode, in the order of their rows."""
    episodes = context.manifest.episodes
    files = [
        (int(episodes.start[positions].min()), number)
        for number, positions in enumerate(context.positions_by_data_file)
        if context.wanted[positions].any()
    ]
    return [number for _, number in sorted(files)]


def scan_file(
    context: Context, number: int, scans: Sequence[Scan], *, reads_values: bool
) -> Iterator[Outcome]:
    """Let scans look at the rows of one data file, and yield what they say."""
    reads_values = reads_values or any(scan.reads_values() for scan in scans)
    try:
        file = DataFile(context, number, reads_values=reads_values)
    except (DatasetError, OSError) as error:
        for scan in scans:
            scan.lose(None)
        yield from _unreadable(context, number, error)
        return
    try:
        for scan in scans:
            yield from scan.file(file)
        if reads_values:
            for block in file.blocks():
                for scan in scans:
                    yield from scan.block(block)
        for _, name in file.losses:
            for scan in scans:
                scan.lose(name)
        yield from _lost_groups(context, file)
    finally:
        file.close()


def _unreadable(context: Context, number: int, error: Exception) -> Iterator[Finding]:
    path = context.manifest.data_files[number]
    if isinstance(error, MissingFileError):
        return  # RR104, found without a look inside
    if is_lfs_pointer(context.root / path):
        yield pointer_finding(path)
        return
    numbers = context.manifest.episodes.number[context.positions_by_data_file[number]]
    size_bytes = context.listing.size_bytes(path)
    reason = "It is empty." if size_bytes == 0 else _reason(str(error))
    yield finding(
        "RR201",
        f"The data file of {name_episodes(numbers)} is not a readable Parquet file. {reason}",
        file=path,
        episode=int(numbers[0]) if len(numbers) == 1 else None,
        # The columns of another file tell what the pages of this one are.
        fixable=len(context.manifest.data_files) > 1 and starts_as_parquet(context.root / path),
    )


def _lost_groups(context: Context, file: DataFile) -> Iterator[Finding]:
    """Yield one finding for each row group that cannot be read, or not all of it."""
    lost: dict[int, list[str]] = {}
    for group, name in file.losses:
        lost.setdefault(group, []).append(name)
    episodes = context.manifest.episodes
    starts = episodes.data_row[file.positions]
    stops = starts + episodes.length[file.positions]
    for group, names in lost.items():
        first, last = file.scanned.group_bounds[group], file.scanned.group_bounds[group + 1]
        inside = np.flatnonzero((starts < last) & (stops > first))
        numbers = episodes.number[file.positions[inside]]
        where = f", of {name_episodes(numbers)}," if len(numbers) else ""
        yield finding(
            "RR213",
            f"Row group {group}{where} cannot be read in {enumerated(map(repr, names))}. "
            f"{_reason(file.losses[group, names[0]])}",
            file=file.path,
            episode=int(numbers[0]) if len(numbers) == 1 else None,
            feature=names[0] if len(names) == 1 else None,
        )


def _reason(text: str) -> str:
    """Return the reason inside of an error about a Parquet file, as a sentence."""
    start, stop = text.find("("), text.rfind(")")
    inner = text[start + 1 : stop] if 0 <= start < stop else text
    return f"{inner.rstrip('.')}."
