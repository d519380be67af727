"""A small model of power cuts: what a file may hold, given what was written to it and synced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SECTOR = 512
Fate = Literal["lost", "zeroed", "torn", "hole"]


@dataclass(frozen=True)
class Write:
    """Bytes that were appended to a file."""

    data: bytes


@dataclass(frozen=True)
class Sync:
    """All bytes that were written before are on the disk."""


@dataclass(frozen=True)
class State:
    """What may be found after a power cut."""

    label: str
    content: bytes


def states_after_cut(log: Sequence[Write | Sync]) -> Iterator[State]:
    """Yield what a file may hold if the power fails after the last entry of a log.

    Synced bytes are there. From any later write on, bytes are lost (the file is shorter), zeroed
    (its length is on the disk and the bytes are not), torn (half of a write is there, then zeros),
    or have a hole (one sector was not written and those after it were).
    """
    content = b""
    starts: list[int] = []
    for entry in log:
        if isinstance(entry, Sync):
            starts = []
        else:
            starts.append(len(content))
            content += entry.data
    ends = [*starts[1:], len(content)]
    for start, end in zip(starts, ends, strict=True):
        half = (start + end) // 2
        yield State(f"lost from byte {start}", content[:start])
        yield State(f"zeroed from byte {start}", content[:start].ljust(len(content), b"\0"))
        yield State(f"torn at byte {half}", content[:half].ljust(len(content), b"\0"))
        sector = start - start % SECTOR
        yield State(
            f"hole at byte {start}",
            content[:start] + bytes(sector + SECTOR - start) + content[sector + SECTOR :],
        )


def chop(content: bytes, size_bytes: int) -> list[Write | Sync]:
    """Return a log of writes, none of them synced, for a file that others wrote."""
    return [
        Write(content[start : start + size_bytes]) for start in range(0, len(content), size_bytes)
    ]
