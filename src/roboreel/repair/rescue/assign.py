"""Which pages make up which column chunk and row group. Pure: no file is read here.

Pages do not name their column. What tells is the order of the columns, that all columns of a row
group have the same number of rows, that a dictionary starts a chunk, and that a writer ends a page
early only at the end of a chunk. Every reading of the pages that agrees with all of this is
followed, up to pages that break off in the middle of a row group. Only the row groups that are the
same in all readings are returned, so a value never ends up in another column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.repair.rescue.template import Habits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from roboreel.parquet.extents.pages import Page
    from roboreel.repair.rescue.template import LeafColumn


_MOST_STEPS = 2**22
"""Pages looked at in all readings together. A file of LeRobot's takes about two per page."""

_UNKNOWN = Habits(full_bytes=0, full_values=0, fallback_bytes=0)


@dataclass(frozen=True, slots=True)
class PageGroup:
    """The pages of one row group."""

    num_rows: int
    stops: tuple[int, ...]
    """For each column, the number of the page right after its chunk."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The row groups at the start of the pages."""

    groups: tuple[PageGroup, ...]
    reason: str
    """Why later pages are not in a row group, as a clause; empty if all are."""


def assign_pages(
    pages: Sequence[Page],
    columns: Sequence[LeafColumn],
    habits: Habits,
    count_rows: Callable[[int, int], int | None],
) -> Assignment:
    """Return the row groups that the first pages can only be.

    Args:
        pages: All whole pages of a file, in order.
        columns: The columns of a row group, in order.
        habits: When the writer starts another page in a chunk.
        count_rows: Given the number of a page and of a column, how many rows the page holds if it
            is of that column; 0 for a dictionary; None if it cannot be. Called again and again.

    Raises:
        CorruptFileError: There are too many readings to follow.
    """
    agreed = _read(pages, columns, habits, count_rows)
    if isinstance(agreed, Assignment):
        return agreed
    # The writer has other habits, or a page is damaged. Suppose nothing about the writer, and then
    # leave out what comes after the damage.
    agreed = _read(pages, columns, _UNKNOWN, count_rows)
    if not isinstance(agreed, Assignment):
        agreed = _read(pages[:agreed], columns, _UNKNOWN, count_rows)
    groups = agreed.groups if isinstance(agreed, Assignment) else ()
    return Assignment(groups, "the next pages do not fit the columns of the sibling")


def _read(
    pages: Sequence[Page],
    columns: Sequence[LeafColumn],
    habits: Habits,
    count_rows: Callable[[int, int], int | None],
) -> Assignment | int:
    """Return what all readings agree on; if there is none, the last page that fits no column."""
    readings = _Readings(pages, columns, habits, count_rows)
    options = _follow(readings)
    if any(option.breaks_off for option in options.values()) or len(pages) in options:
        return _agreed(options, len(pages), len(columns))
    return readings.misfit


def _agreed(options: dict[int, _Option], num_pages: int, num_columns: int) -> Assignment:
    """Return the row groups that all readings have in common."""
    ends = {at for at, option in options.items() if option.breaks_off or at == num_pages}
    viable = _viable(options, ends)
    groups: list[PageGroup] = []
    at = 0
    while at < num_pages:
        option = options[at]
        followed = [group for group in option.groups if group.stops[-1] in viable]
        if num_columns == 1:
            followed = followed[-1:]  # in whatever way it is divided, the values are the same
        if not followed:
            return Assignment(tuple(groups), "the last row group is incomplete")
        if num_columns > 1 and len(followed) + option.breaks_off > 1:
            reason = "the columns of the next pages cannot be told apart"
            return Assignment(tuple(groups), reason)
        groups += followed
        at = followed[0].stops[-1]
    return Assignment(tuple(groups), "")


@dataclass(frozen=True, slots=True)
class _Option:
    """What may follow at a page."""

    groups: tuple[PageGroup, ...]
    """Whole row groups, by ascending length."""
    breaks_off: bool
    """Whether all pages that are left may be part of one row group."""


def _follow(readings: _Readings) -> dict[int, _Option]:
    """Return what may follow at each page that may start a row group."""
    options: dict[int, _Option] = {}
    waiting = [0]
    while waiting:
        at = waiting.pop()
        if at not in options:
            options[at] = readings.row_groups(at)
            waiting += [group.stops[-1] for group in options[at].groups]
    return options


def _viable(options: dict[int, _Option], ends: set[int]) -> set[int]:
    """Return the pages from which some reading reaches an end."""
    viable = set(ends)
    for at in sorted(options, reverse=True):
        if any(group.stops[-1] in viable for group in options[at].groups):
            viable.add(at)
    return viable


class _Readings:
    """Ways to read pages as chunks."""

    def __init__(
        self,
        pages: Sequence[Page],
        columns: Sequence[LeafColumn],
        habits: Habits,
        count_rows: Callable[[int, int], int | None],
    ) -> None:
        self._pages = pages
        self._columns = columns
        self._habits = habits
        self._count_rows = count_rows
        self._steps_left = _MOST_STEPS
        self.misfit = 0
        """The last page that fitted no column that it was tried for."""

    def row_groups(self, start: int) -> _Option:
        """Return what the pages from ``start`` on may be."""
        groups: list[PageGroup] = []
        breaks_off = False
        for stop, rows in self._chunks(start, 0) if start < len(self._pages) else ():
            stops = None if rows is None else self._other_columns(stop, rows)
            breaks_off |= rows is None or stops == ()
            if rows is not None and stops:
                groups.append(PageGroup(rows, stops))
        return _Option(tuple(groups), breaks_off)

    def _other_columns(self, first_stop: int, num_rows: int) -> tuple[int, ...] | None:
        """Return the stops of all columns; () if the pages break off, None if they do not fit."""
        stops = [first_stop]
        for column in range(1, len(self._columns)):
            if num_rows == 0 and self._columns[column].dictionary is False:
                stops.append(stops[-1])  # without a dictionary an empty chunk has no pages
                continue
            stop, rows = self._first_with(num_rows, stops[-1], column)
            if rows is None:
                return ()
            if rows != num_rows:
                return None
            stops.append(stop)
        return tuple(stops)

    def _first_with(self, num_rows: int, start: int, column: int) -> tuple[int, int | None]:
        """Return the first stop of a chunk with enough rows; rows are None as in `_chunks`."""
        chunks = self._chunks(start, column)
        return next((end for end in chunks if end[1] is None or end[1] >= num_rows), (start, -1))

    def _chunks(self, start: int, column: int) -> Iterator[tuple[int, int | None]]:
        """Yield each stop that the chunk from ``start`` on may have, and its rows.

        Rows are None if the chunk may go on where the pages end.
        """
        pages, at, rows = self._pages, start, 0
        has_dictionary = at < len(pages) and pages[at].is_dictionary
        may_be_plain = True
        if has_dictionary:
            if not self._starts_with_dictionary(at, column):
                return
            may_be_plain = pages[at].unpacked_bytes >= self._habits.fallback_bytes
            at += 1
            if not pages[start].num_values and not self._has_positions(at):
                yield at, 0
        elif at < len(pages) and self._columns[column].dictionary:
            return
        while at < len(pages) and not pages[at].is_dictionary:
            page = pages[at]
            if page.has_positions and not has_dictionary:
                return
            if not page.has_positions and not may_be_plain:
                return
            count = self._count(at, column)
            if count is None:
                return
            rows, at = rows + count, at + 1
            if not self._has_positions(at):
                yield at, rows
            if not page.has_positions and not self._habits.is_full(page):
                return
        if at == len(pages):
            yield at, None

    def _starts_with_dictionary(self, page: int, column: int) -> bool:
        return self._columns[column].dictionary is not False and (
            self._count(page, column) is not None
        )

    def _has_positions(self, page: int) -> bool:
        """Return whether a page can only go on with the chunk before it."""
        return page < len(self._pages) and self._pages[page].has_positions

    def _count(self, page: int, column: int) -> int | None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise CorruptFileError("There are too many ways to read the pages as columns.")
        count = self._count_rows(page, column)
        if count is None:
            self.misfit = max(self.misfit, page)
        return count
