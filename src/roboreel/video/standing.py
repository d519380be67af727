"""Decoders lent to one thread at a time, with those that stand where the next images follow."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from roboreel.forking import after_fork
from roboreel.video.decode import KEPT_BEHIND, MOST_HELD_BACK, Decoder, decoder_bytes

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from roboreel.io.budget import Budget
    from roboreel.video.clip import Run
    from roboreel.video.packet_table import Coding, PacketTable

_OWNER = "decoders"
# GOPs whose last reads are remembered, and decoders that stand in one.
_MOST_PASSES = 48
_MOST_STANDING = 12
# The images that a standing decoder keeps may take this share of the budget.
_KEPT_SHARE = 16
# A read of the next GOP continues a pass if it begins within this many packets of its end.
_NEAR_PACKETS = 64

_Gop = tuple[int, int]  # The serial number of a packet table, and a keyframe.


@dataclass(frozen=True, slots=True)
class Lease:
    """A decoder for one thread."""

    decoder: Decoder
    keep_bytes: int
    """What it may keep for reads that follow; 0 if none is expected to."""


@dataclass(slots=True, eq=False)
class _Pass:
    """The last read of a GOP."""

    gop: _Gop
    """Where it begins."""
    last_gop: _Gop
    """Where it ends."""
    first: int
    """Presentation tick of its first image."""
    last: int
    """That of its last image."""
    first_packet: int
    last_packet: int
    goes_on: bool = False
    """Whether it continues an earlier read."""
    left: _Gop | None = None
    """The GOP in which the reads that it continues were before this one."""
    passed: _Gop | None = None
    """The one before that, if this read is the first in its GOP: no read goes back so far."""
    under_way: threading.Lock = field(default_factory=threading.Lock)
    """Held while it decodes."""

    @classmethod
    def of(cls, table: PacketTable, runs: Sequence[Run]) -> _Pass:
        """Return a read that is under way; one that no other one continues if it has no runs."""
        if runs:
            wanted = [packet for run in runs for packet in run.wanted]
            ticks = table.pts[wanted]
            first, last = (
                (table.serial, runs[0].start),
                (table.serial, int(table.start[wanted[-1]])),
            )
            current = cls(first, last, int(ticks.min()), int(ticks.max()), wanted[0], wanted[-1])
        else:
            current = cls((-1, 0), (-1, 0), 0, 0, 0, 0)
        current.under_way.acquire()
        return current

    def continues(self, before: _Pass, slack: float) -> bool:
        """Return whether this read moves on from another one of the same GOP.

        Two threads that read in order may change places: if a read that goes on is overtaken by the
        next one, its images are among those that are kept. ``slack`` says how many ticks that is.
        """
        if before.goes_on and before.first - slack <= self.first < before.first:
            return True
        return self.first >= before.first and self.last > before.last

    def follow(self, before: _Pass) -> None:
        """Note that this read continues another one."""
        self.goes_on = True
        if before.last_gop == self.gop:
            self.left = before.left
        else:
            self.left, self.passed = before.last_gop, before.left


class Decoders:
    """The decoders of a process that are not in use, under its budget. Safe to use from threads.

    Reads that move forward through a GOP, image by image or window by window, get the decoder that
    stands there, and wait for it if the read before is still under way: decoding what lies between
    takes less than decoding from the keyframe. In the next GOP they start anew, side by side. All
    others get the decoder that was used last.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._begin()
        after_fork(self, Decoders._begin)

    @contextmanager
    def lend(self, table: PacketTable, runs: Sequence[Run], packets: int) -> Iterator[Lease]:
        """Lend a decoder for runs of a file. After an error it is not used again.

        Args:
            table: The packets of the file.
            packets: How many packets the longest run has.
            runs: What is decoded. Empty if no read is expected to go on behind it, and nobody waits
                for it then.
        """
        current = _Pass.of(table, runs)
        try:
            if runs:
                self._enter(table, current)
            decoder = self._take(table, current)
            keep_bytes = self._keep_bytes(table, packets) if current.goes_on else 0
            size_bytes = decoder_bytes(table.coding, packets) + keep_bytes
            with self._budget.lent(max(size_bytes, decoder.nbytes), owner=_OWNER):
                yield Lease(decoder, keep_bytes)
            self._put(decoder, current)
        finally:
            current.under_way.release()

    def needed_bytes(self, table: PacketTable, packets: int, *, goes_on: bool) -> int:
        """Return what a decoder takes while it is lent.

        Args:
            table: The packets of the file.
            packets: How many packets the longest run has.
            goes_on: Whether later reads may go on behind it.
        """
        kept = self._keep_bytes(table, packets) if goes_on else 0
        return decoder_bytes(table.coding, packets) + kept

    def _keep_bytes(self, table: PacketTable, packets: int) -> int:
        """Return the most that a decoder may keep: never more than comes out of a run and after it."""
        height, width = table.coding.image_size
        images = packets + MOST_HELD_BACK + KEPT_BEHIND
        return min(self._budget.limit_bytes // _KEPT_SHARE, images * height * width * 3 // 2)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._passes: OrderedDict[_Gop, _Pass] = OrderedDict()
        self._standing: OrderedDict[_Gop, None] = OrderedDict()
        self._spare: defaultdict[Coding, list[Hashable]] = defaultdict(list)
        self._numbers = count()

    def _enter(self, table: PacketTable, current: _Pass) -> None:
        """Note a read, after those that it continues."""
        while True:
            with self._lock:
                before = self._before(table, current)
                # In another GOP, decoding starts at its keyframe, whoever is under way.
                is_near = before is not None and before.last_gop == current.gop
                if before is None or not (is_near and before.under_way.locked()):
                    if before is not None:
                        current.follow(before)
                    self._note(current)
                    return
            with before.under_way:  # It releases this when it is done.
                pass

    def _before(self, table: PacketTable, current: _Pass) -> _Pass | None:
        """Return the read that a new one continues; None if there is none."""
        before = self._passes.get(current.gop)
        if before is not None:
            return before if current.continues(before, table.step * KEPT_BEHIND) else None
        keyframe = current.gop[1]
        if keyframe == 0:
            return None
        before = self._passes.get((table.serial, int(table.start[keyframe - 1])))
        if before is None or not before.goes_on:
            return None
        ahead = current.first_packet - before.last_packet
        return before if 0 < ahead <= _NEAR_PACKETS else None

    def _note(self, current: _Pass) -> None:
        for gop in (current.gop, current.last_gop):
            self._passes[gop] = current
            self._passes.move_to_end(gop)
        while len(self._passes) > _MOST_PASSES:
            self._passes.popitem(last=False)

    def _take(self, table: PacketTable, current: _Pass) -> Decoder:
        decoder: Decoder | None = None
        if current.goes_on:
            decoder = self._take_standing(current.gop)
            if decoder is None and current.passed is not None:
                decoder = self._take_standing(current.passed)
            decoder = decoder or self._take_oldest()
        if decoder is None or decoder.coding != table.coding:
            decoder = self._take_spare(table.coding)
        return decoder or Decoder(table.coding)

    def _take_spare(self, coding: Coding) -> Decoder | None:
        """Return the decoder that was used last, so that no more are held than work at a time."""
        decoder: Decoder | None = self._budget.take_last(self._spare[coding])
        return decoder

    def _take_standing(self, gop: _Gop) -> Decoder | None:
        """Return the decoder that stands in a GOP, if there is one."""
        with self._lock:
            self._standing.pop(gop, None)
        decoder: Decoder | None = self._budget.take(_key(gop))
        return decoder

    def _take_oldest(self) -> Decoder | None:
        """Return the standing decoder that was not used for longest, if there are too many."""
        with self._lock:
            if len(self._standing) < _MOST_STANDING:
                return None
            gop = next(iter(self._standing))
        return self._take_standing(gop)

    def _put(self, decoder: Decoder, current: _Pass) -> None:
        key: Hashable = ("decoder", next(self._numbers))
        if current.goes_on:
            key = _key(current.last_gop)
            with self._lock:
                self._standing[current.last_gop] = None
                self._standing.move_to_end(current.last_gop)
        self._budget.put(key, decoder, decoder.nbytes, owner=_OWNER, survives_fork=False)
        if not current.goes_on:
            self._spare[decoder.coding].append(key)


def _key(gop: _Gop) -> tuple[str, _Gop]:
    return ("standing decoder", gop)
