"""Completion of Parquet files whose writer died before it wrote the footer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError
from roboreel.files import atomic_file
from roboreel.io.budget import process_budget
from roboreel.io.mapped import MappedFile
from roboreel.io.reading import SpanReader, arrow_file
from roboreel.parquet.reader import parquet_errors
from roboreel.repair.rescue.assign import assign_pages
from roboreel.repair.rescue.count import count_rows, is_dictionary_of
from roboreel.repair.rescue.footer import FoundChunk, FoundRowGroup, encode_footer
from roboreel.repair.rescue.template import Template, read_template
from roboreel.repair.rescue.walk import walk_pages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roboreel.parquet.extents.pages import Page
    from roboreel.repair.rescue.assign import PageGroup
    from roboreel.repair.rescue.walk import Walk


_MAGIC = b"PAR1"
_BLOCK_BYTES = 1024**2
_BATCH_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Found:
    """The whole row groups at the start of a Parquet file without a footer."""

    row_groups: tuple[FoundRowGroup, ...]
    template: Template
    """The columns, as the sibling describes them."""
    size_bytes: int
    """Size of the file when it was read."""
    reason: str
    """What the lost bytes are, as a sentence; empty if none are lost."""

    @property
    def rows(self) -> int:
        """Rows in the whole row groups."""
        return sum(group.num_rows for group in self.row_groups)

    @property
    def bytes_kept(self) -> int:
        """Bytes at the start of the file that a rebuilt file repeats."""
        return self.row_groups[-1].stop if self.row_groups else len(_MAGIC)

    @property
    def bytes_lost(self) -> int:
        """Bytes behind them."""
        return self.size_bytes - self.bytes_kept


def find_row_groups(path: Path, *, like: Path) -> Found:
    """Return the row groups that a file has, without its footer.

    Reads and unpacks all pages once. Memory holds one page, and a note about every page.

    Args:
        path: A Parquet file, cut off anywhere or not at all.
        like: A whole file by the same writer with the same columns: it tells their names, types
            and compression.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: The file does not start as Parquet does, cannot be walked, or the sibling
            is damaged or has no rows.
        DatasetError: A page does not fit in the memory budget.
    """
    template = read_template(like)
    file = MappedFile(path)
    if file.read(0, min(4, file.size_bytes)) != _MAGIC:
        raise CorruptFileError(f"The file does not start as Parquet files do: {str(path)!r}.")
    walk = walk_pages(file, len(_MAGIC))
    try:
        groups, reason = _assign(file, walk.pages, template)
    except CorruptFileError as error:
        raise CorruptFileError(f"{error} File: {str(path)!r}.") from error
    lost = file.size_bytes - (groups[-1].stop if groups else len(_MAGIC))
    return Found(groups, template, file.size_bytes, _why(walk, reason, lost))


def write_with_footer(path: Path, found: Found, target: Path) -> int:
    """Write the row groups of a file and a footer to a new file, and return its rows.

    The pages are copied byte by byte. The new file is moved into place only after pyarrow has read
    all its values.

    Args:
        path: The file that ``found`` describes.
        found: What `find_row_groups` found.
        target: The file to write.

    Raises:
        CorruptFileError: The file has changed, or pyarrow cannot read the pages.
    """
    with atomic_file(target) as temporary:
        with SpanReader(path) as source, temporary.open("wb") as out:
            if source.size_bytes < found.bytes_kept:
                raise CorruptFileError(
                    f"The file had {found.size_bytes:,} bytes when it was read and has "
                    f"{source.size_bytes:,} now: {str(path)!r}."
                )
            for start in range(0, found.bytes_kept, _BLOCK_BYTES):
                out.write(source.read(start, min(start + _BLOCK_BYTES, found.bytes_kept)))
            out.write(encode_footer(found.template, found.row_groups))
        _check(temporary, path, found)
    return found.rows


def _assign(
    file: MappedFile, pages: Sequence[Page], template: Template
) -> tuple[tuple[FoundRowGroup, ...], str]:
    limit_bytes = process_budget().limit_bytes

    @cache
    def count(page: int, column: int) -> int | None:
        stored, leaf = pages[page], template.columns[column]
        if stored.is_dictionary:
            return 0 if is_dictionary_of(file, stored, leaf, limit_bytes) else None
        return count_rows(file, stored, leaf, limit_bytes)

    assignment = assign_pages(pages, template.columns, template.habits, count)
    groups: list[FoundRowGroup] = []
    first = 0
    for group in assignment.groups:
        groups.append(_row_group(pages, first, group))
        first = group.stops[-1]
    return tuple(groups), assignment.reason


def _row_group(pages: Sequence[Page], first: int, group: PageGroup) -> FoundRowGroup:
    chunks = []
    for stop in group.stops:
        start = pages[first].start if first < len(pages) else pages[-1].stop
        chunks.append(FoundChunk.of_pages(pages[first:stop], start))
        first = stop
    return FoundRowGroup(group.num_rows, tuple(chunks))


def _why(walk: Walk, reason: str, lost_bytes: int) -> str:
    if not lost_bytes:
        return ""
    parts = [part for part in (reason, walk.reason) if part]
    return f"{lost_bytes:,} bytes are left out: {', and '.join(parts)}."


def _check(rebuilt: Path, path: Path, found: Found) -> None:
    with parquet_errors(path), pq.ParquetFile(arrow_file(rebuilt)) as file:
        # pyarrow 18 fails to iterate over no row groups.
        batches = file.iter_batches(_BATCH_ROWS, use_threads=False) if found.rows else ()
        rows = sum(batch.num_rows for batch in batches)
    if rows != found.rows:
        raise CorruptFileError(
            f"The pages hold {found.rows:,} rows, but pyarrow reads {rows:,}: {str(path)!r}."
        )
