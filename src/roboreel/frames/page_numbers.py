"""Numbers of any rows, decoded from their pages alone: for features that the budget cannot hold."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.distinct import numbered
from roboreel.frames.page_table import PageTable
from roboreel.spans.mapped import changed_file
from roboreel.storage.open_files import OPEN_FILES
from roboreel.storage.small_groups.blocks import Blocks, room_for, unpack_each
from roboreel.storage.small_groups.number_pages import UNFAMILIAR, UNKNOWN
from roboreel.storage.small_groups.number_rows import decode_rows, find_values
from roboreel.storage.small_groups.runs import ranges

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from roboreel.frames.frame_files import FrameFiles
    from roboreel.memory.budget import Budget
    from roboreel.schema import Feature
    from roboreel.spans.mapped import MappedFile
    from roboreel.storage.small_groups.number_pages import Form

__all__ = ["PageNumbers"]

_OWNER = "row groups"
# Pages are unpacked together up to this share of the budget, and this size.
_SHARE, _LEAST_BYTES, _MOST_BYTES = 64, 2**17, 2**19
# Row groups that take more than this share of the budget are read in parts, by others.
_LARGEST_SHARE, _LEAST_LARGEST_BYTES = 16, 2**16
# So are those with more values than bytes in this share: a few bytes can stand for any number of
# them, and each takes some 64 bytes while it is decoded.
_VALUES_SHARE, _LEAST_MOST_VALUES = 256, 2**16
# Whole row groups are held as long as this share of the budget stays free.
_FREE_SHARE = 4
# Pages are there packed, joined and unpacked, and positions as 64 bits.
_COPIES = 6
_MOST_RECENT = 64
# Row groups that are held are decoded so many values at a time.
_HELD_AT_ONCE = 2**16
_MANY_READS = 256


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """Adjacent rows that are asked for one after another, all ``(S,)``."""

    entry: NDArray[np.int64]
    """Number of the row group in the page table."""
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    """Rows ``[first, last)`` of the row group."""
    slot: NDArray[np.int64]
    """Where the first of them goes in the result."""

    def of(self, chosen: Any) -> _Spans:  # noqa: ANN401  # whatever indexes arrays
        return _Spans(self.entry[chosen], self.first[chosen], self.last[chosen], self.slot[chosen])

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows each has."""
        return self.last - self.first

    @property
    def slots(self) -> NDArray[np.int64]:
        """Where all rows go."""
        return ranges(self.slot, self.counts)


@dataclass(frozen=True, slots=True, eq=False)
class _Unpacked:
    """Some row groups, unpacked, all ``(E,)``."""

    entries: NDArray[np.int64]
    pages: Blocks
    dictionaries: Blocks
    values_at: NDArray[np.int64]

    def decode(
        self, form: Form, place: NDArray[np.int64], span: tuple[NDArray[Any], NDArray[Any]]
    ) -> NDArray[Any] | None:
        """Return spans of rows, each of one of the row groups; None if one is damaged."""
        pages, dictionaries = self.pages.part(place), self.dictionaries.part(place)
        return decode_rows(form, pages, dictionaries, self.values_at[place], span)


class PageNumbers:
    """Numbers by row, for row groups that have one page of a feature.

    Row groups are held whole under the budget while there is room, or when they are asked for
    again soon. Of all others only the rows that are asked for are decoded.
    """

    def __init__(self, files: FrameFiles, budget: Budget) -> None:
        self._files = files
        self._budget = budget
        self._recent: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._num_reads = self._num_first_reads = 0
        self._scratch_keys: list[Hashable] = []
        self._num_scratches = itertools.count()

    @property
    def rereads_much(self) -> bool:
        """Whether most row groups that are read had been read before."""
        return self._num_reads > _MANY_READS + 2 * self._num_first_reads

    def gather(
        self, name: str, feature: Feature, rows: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        """Return a feature at some rows, ``(N, …)``, and which of them were read.

        Args:
            name: A feature of numbers.
            feature: The feature as the metadata declares it.
            rows: Rows of the dataset, ``(N,)``, in any order.

        Returns:
            None if none was: the files have another form.
        """
        table = self._table(name, feature)
        # Windows repeat the first and the last row of an episode.
        is_new = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=is_new[1:])
        entry, row, known = table.locate(rows[is_new])
        form = table.form
        if form is None or not known.any():
            return None
        spans = self._familiar(table, form.items, _spans_of(entry, row, known))
        if not len(spans.entry):  # A declared shape may be anything, until a page has it.
            self._count(name, table)
            return None
        values = np.empty((len(entry), form.items), form.dtype)
        done = np.zeros(len(entry), np.bool_)
        spans = self._copy_held(table, spans, values, done)
        for some in self._portions(table, spans):
            self._read(table, form, some, values, done)
        self._files.note_freed(values.nbytes)  # A batch before this one.
        self._count(name, table)
        if len(values) < len(rows):
            place = np.cumsum(is_new) - 1
            values, done = values[place], done[place]
        return values.reshape(len(rows), *feature.value_shape), done

    def _table(self, name: str, feature: Feature) -> PageTable:
        table: PageTable | None = self._budget.get((self._files.token, name, "pages"))
        return PageTable(self._files, name, feature) if table is None else table

    def _count(self, name: str, table: PageTable) -> None:
        """Hold the table, counted with the files that it describes by now."""
        self._files.tidy()
        key = (self._files.token, name, "pages")
        # What was lent meanwhile may have taken its place.
        if table.counted_bytes != table.size_bytes or self._budget.get(key) is not table:
            table.counted_bytes = table.size_bytes
            self._budget.put(key, table, table.size_bytes, owner="page tables")

    def _familiar(self, table: PageTable, items: int, spans: _Spans) -> _Spans:
        pages = table.pages[spans.entry]
        size = pages["unpacked_bytes"] + pages["dictionary_bytes"]
        limit = self._budget.limit_bytes
        largest = max(limit // _LARGEST_SHARE, _LEAST_LARGEST_BYTES)
        small = (size <= largest) & (pages["num_rows"] <= self._most_values // items)
        return spans.of((pages["values_at"] != UNFAMILIAR) & small)

    @property
    def _most_values(self) -> int:
        """How many values are decoded at once."""
        return max(self._budget.limit_bytes // _VALUES_SHARE, _LEAST_MOST_VALUES)

    def _copy_held(
        self, table: PageTable, spans: _Spans, values: NDArray[Any], done: NDArray[np.bool_]
    ) -> _Spans:
        """Copy the rows of row groups that are held; return the others."""
        get, token, entries = self._budget.get, self._files.token, spans.entry.tolist()
        held = {entry: get((token, table.token, entry)) for entry in set(entries)}
        left = np.ones(len(entries), np.bool_)
        spelled = zip(entries, spans.first.tolist(), spans.last.tolist(), strict=True)
        for place, (entry, first, last) in enumerate(spelled):
            whole = held[entry]
            if whole is not None:
                slot = int(spans.slot[place])
                values[slot : slot + last - first] = whole[first:last]
                done[slot : slot + last - first] = True
                left[place] = False
        return spans.of(left)

    def _portions(self, table: PageTable, spans: _Spans) -> Iterator[_Spans]:
        """Yield the spans of some row groups at a time, which are unpacked together."""
        entries, place = numbered(spans.entry)
        pages = table.pages[entries]
        size = pages["unpacked_bytes"] + pages["dictionary_bytes"]
        limit = min(max(self._budget.limit_bytes // _SHARE, _LEAST_BYTES), _MOST_BYTES)
        portion = (np.cumsum(size) // limit)[place]
        for number in range(int(portion.max(initial=-1)) + 1):
            chosen = np.flatnonzero(portion == number)
            if len(chosen):
                yield spans.of(chosen)

    def _read(
        self,
        table: PageTable,
        form: Form,
        spans: _Spans,
        values: NDArray[Any],
        done: NDArray[np.bool_],
    ) -> None:
        entries, place = numbered(spans.entry)
        pages = table.pages[entries]
        size = room_for(pages["unpacked_bytes"]) + room_for(pages["dictionary_bytes"])
        with self._budget.in_hand(_COPIES * size, owner=_OWNER), self._scratch(size) as scratch:
            unpacked = self._unpack(table, form, entries, pages, scratch)
            if unpacked is None:
                return
            sound = unpacked.values_at[place] >= 0
            spans, place = spans.of(sound), place[sound]
            for part in _portions(spans.counts * form.items, self._most_values):
                some = spans.of(part)
                decoded = unpacked.decode(form, place[part], (some.first, some.last))
                if decoded is None:  # pyarrow says what is wrong with it.
                    table.set_values_at(entries, UNFAMILIAR)
                    return
                slots = some.slots
                values[slots], done[slots] = decoded, True
            self._hold(table, form, unpacked)

    @contextmanager
    def _scratch(self, size_bytes: int) -> Iterator[NDArray[np.uint8]]:
        """Lend memory to unpack pages into, for one thread at a time.

        It is used again and again: new memory costs as much as what is unpacked into it.
        """
        scratch: NDArray[np.uint8] | None = self._budget.take_last(self._scratch_keys)
        if scratch is None or len(scratch) < size_bytes:
            scratch = np.empty(size_bytes, np.uint8)
        yield scratch
        key = (self._files.token, "scratch", next(self._num_scratches))
        self._budget.put(key, scratch, scratch.nbytes, owner=_OWNER)
        self._scratch_keys.append(key)

    def _unpack(
        self,
        table: PageTable,
        form: Form,
        entries: NDArray[np.int64],
        pages: NDArray[np.void],
        scratch: NDArray[np.uint8],
    ) -> _Unpacked | None:
        """Return row groups, unpacked; None if one is damaged."""
        has = np.flatnonzero(pages["dictionary_bytes"])
        files = self._maps(table, entries)
        start = np.concatenate([pages["dictionary_start"][has], pages["start"]]).tolist()
        stop = np.concatenate([pages["dictionary_stop"][has], pages["stop"]]).tolist()
        listed = zip([*has.tolist(), *range(len(entries))], start, stop, strict=True)
        pieces = [files[place].view(first, last - first) for place, first, last in listed]
        sizes = np.concatenate([pages["dictionary_bytes"][has], pages["unpacked_bytes"]])
        blocks = unpack_each(pieces, sizes, form.codec, scratch)
        if blocks is None:
            table.set_values_at(entries, UNFAMILIAR)
            return None
        dictionaries = np.zeros((2, len(entries)), np.int64)
        dictionaries[:, has] = blocks.start[: len(has)], blocks.stop[: len(has)]
        data = blocks.part(slice(len(has), None))
        at = pages["values_at"].copy()
        first_reads = np.flatnonzero(at == UNKNOWN).tolist()
        self._num_reads += len(at)
        self._num_first_reads += len(first_reads)
        for place in first_reads:
            page = data.data[data.start[place] : data.stop[place]].tobytes()
            at[place] = find_values(page, form, int(pages["num_rows"][place]))
            table.set_values_at(entries[place : place + 1], at[place])
        return _Unpacked(entries, data, Blocks(blocks.data, *dictionaries), at)

    def _maps(self, table: PageTable, entries: NDArray[np.int64]) -> list[MappedFile]:
        """Return the file of each row group, mapped."""
        listed = table.file[entries].tolist()
        maps = {file: self._files.map(file) for file in set(listed)}
        for file, mapped in maps.items():
            mapped.check_size()
            if mapped.identity != table.identities[file]:
                raise changed_file(mapped.path)
        return [maps[file] for file in listed]

    def _hold(self, table: PageTable, form: Form, unpacked: _Unpacked) -> None:
        """Hold row groups whole if there is room, or if they were asked for not long ago."""
        sound = np.flatnonzero(unpacked.values_at >= 0)
        chosen = sound[self._are_worth_it(table, form, unpacked.entries[sound])]
        counts = table.pages["num_rows"][unpacked.entries[chosen]] * form.items
        for part in _portions(counts, _HELD_AT_ONCE):
            place = chosen[part]
            num_rows = table.pages["num_rows"][unpacked.entries[place]]
            values = unpacked.decode(form, place, (0 * num_rows, num_rows))
            if values is None:
                return
            parts = np.split(values, np.cumsum(num_rows)[:-1])
            for entry, part in zip(unpacked.entries[place].tolist(), parts, strict=True):
                key = (self._files.token, table.token, entry)
                self._budget.put(key, part.copy(), part.nbytes, owner=_OWNER)
            self._files.note_freed(values.nbytes)  # As much made room for them.

    def _are_worth_it(
        self, table: PageTable, form: Form, entries: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which row groups to hold."""
        limit = self._budget.limit_bytes
        # Open files make room: they are opened again if need be.
        held = self._budget.held_bytes - self._budget.held_by(OPEN_FILES)
        row_bytes = form.items * form.dtype.itemsize
        needed = held + np.cumsum(table.pages["num_rows"][entries] * row_bytes)
        # Of a feature that is larger than the budget, few row groups are asked for again in time.
        is_large = self._files.num_rows * row_bytes > limit
        worth: NDArray[np.bool_] = needed <= (0 if is_large else limit - limit // _FREE_SHARE)
        for place in np.flatnonzero(~worth).tolist():
            key = (table.token, int(entries[place]))
            worth[place] = self._recent.pop(key, True) is None
            self._recent[key] = None
        while len(self._recent) > _MOST_RECENT:
            self._recent.popitem(last=False)
        return worth


def _portions(counts: NDArray[np.int64], most: int) -> list[Any]:
    """Return the places of some counts, together so many at a time.

    Positions of values take many times the memory of the values.
    """
    if not len(counts):
        return []
    total = np.cumsum(counts)
    if total[-1] <= most:  # Mostly; views cost nothing.
        return [slice(None)]
    return np.split(np.arange(len(counts)), np.flatnonzero(np.diff(total // most)) + 1)


def _spans_of(entry: NDArray[np.int64], row: NDArray[np.int64], known: NDArray[np.bool_]) -> _Spans:
    """Return adjacent rows of one row group together; those of unknown files are left out."""
    breaks = (np.diff(entry) != 0) | (np.diff(row) != 1) | (known[1:] != known[:-1])
    slot = np.append(0, np.flatnonzero(breaks) + 1)
    count = np.diff(slot, append=len(entry))
    spans = _Spans(entry[slot], row[slot], row[slot] + count, slot)
    return spans.of(known[slot])
