"""Where a ring stands: a header that survives a crash at any instruction."""

from __future__ import annotations

import struct
import zlib
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmap import mmap

# One page for each copy, so that no torn write can damage two. The first two take turns at every
# change, for readers and for whoever goes on after a kill; both may be on their way to the disk when
# the power fails. The last two take turns at every sync, so one of them is always on the disk.
COPY_BYTES = 4096
HEADER_BYTES = 4 * COPY_BYTES

_MAGIC = b"RREPLAY1"
_FORM = struct.Struct("<8s9q16s")
_CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Header:
    """Where a ring stands. Rows and episodes are counted from the first one ever added.

    The complete episodes are ``[first_episode, next_episode)`` and hold the rows
    ``[tail, open_start)``; the rows ``[open_start, head)`` belong to the episode being added.
    """

    sequence: int
    """Grows with every change; the copy with the greater one is valid."""
    first_episode: int
    tail: int
    next_episode: int
    open_start: int
    head: int
    synced_episode: int
    """`next_episode` as it was when all data were last known to be on the disk."""
    synced_row: int
    """`open_start` as it was then."""
    reserved: int
    """No row from this one on has been written, even if the power failed since."""
    boot: bytes
    """Identifies the run of the machine; in a later run only what was synced can be trusted."""

    def pack(self) -> bytes:
        """Return the header as bytes with a checksum."""
        body = _FORM.pack(_MAGIC, *astuple(self))
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def unpack(cls, data: bytes) -> Header | None:
        """Return the header in these bytes; None if they are not one, or are half written."""
        if len(data) < _FORM.size + _CHECKSUM.size:
            return None
        body = data[: _FORM.size]
        if _CHECKSUM.unpack_from(data, _FORM.size)[0] != zlib.crc32(body):
            return None
        magic, *values = _FORM.unpack(body)
        return cls(*values) if magic == _MAGIC else None

    @classmethod
    def empty(cls, capacity: int, boot: bytes) -> Header:
        """Return the header of a ring that nothing was added to."""
        counters = dict.fromkeys((field.name for field in fields(cls)), 0)
        # The first turn overwrites nothing, so all of it is reserved from the start.
        return cls(**{**counters, "reserved": capacity, "boot": boot})  # type: ignore[arg-type]  # all but boot are integers


def copy_offset(sequence: int) -> int:
    """Return where the header with this sequence number lies: the copies take turns."""
    return sequence % 2 * COPY_BYTES


class HeaderReader:
    """Reads the newest header from the map that its writer changes."""

    def __init__(self, mapped: mmap) -> None:
        self._mapped = mapped
        self._last: tuple[tuple[bytes, bytes], Header] | None = None

    def newest(self, boot: bytes) -> Header | None:
        """Return the newer of the first two copies that are whole; None if there is none.

        A writer may be replacing a copy right now. It never touches the newest one, so that one is
        whole, unless two changes happened between the two reads: then read again.

        Args:
            boot: This run of the machine. Only headers of earlier runs are looked for among the
                synced copies, too: those of this run are older than what was written since.
        """
        for _ in range(100):
            copies = (self._copy(0), self._copy(1))
            last = self._last
            if last is not None and last[0] == copies:
                return last[1]
            whole = [header for header in map(Header.unpack, copies) if header is not None]
            if all(header.boot != boot for header in whole):
                synced = map(Header.unpack, (self._copy(2), self._copy(3)))
                whole += [header for header in synced if header is not None and header.boot != boot]
            if whole:
                newest = max(whole, key=lambda header: header.sequence)
                self._last = (copies, newest)
                return newest
        return None

    def older_synced_copy(self) -> int:
        """Return the number of the synced copy that the next sync may replace: 2 or 3."""
        one, other = (Header.unpack(self._copy(number)) for number in (2, 3))
        if one is None or other is None:
            return 2 if one is None else 3
        return 2 if one.sequence < other.sequence else 3

    def _copy(self, number: int) -> bytes:
        start = number * COPY_BYTES
        return self._mapped[start : start + _FORM.size + _CHECKSUM.size]


@cache
def current_boot() -> bytes:
    """Return what identifies this run of the machine; zeros where the system does not tell."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return bytes.fromhex(text.strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)
