"""What tells chunks and rows apart, in all recordings."""

from __future__ import annotations

import os
import re
import time
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

__all__ = ["CHUNK_TEXT", "IDENTITY_TYPE", "Identities", "Identity"]

# So many are made at once: making them one by one takes longer than all else about a chunk.
_AT_ONCE = 4096
_BIG_ENDIAN = Struct(">QQ")
# Two fields of a message, each a number of 64 bits.
_FIELDS = Struct("<BQBQ")


IDENTITY_TYPE = pa.binary(16)
"""Of columns of identities."""
CHUNK_TEXT = re.compile(rb"chunk_[0-9A-F]{16}[0-9a-f]{16}")
"""How the identity of a chunk stands in its schema."""


class Identity(NamedTuple):
    """What Rerun calls a TUID: a time, and a number."""

    time_ns: int
    number: int

    def as_bytes(self) -> bytes:
        """Return it as it stands in a column."""
        return _BIG_ENDIAN.pack(*self)

    def as_message(self) -> bytes:
        """Return it as it stands in a message."""
        return _FIELDS.pack(0x09, self.time_ns, 0x11, self.number)

    def as_text(self) -> bytes:
        """Return it as it stands in the schema of a chunk."""
        return b"chunk_%016X%016x" % self


class Identities:
    """Ascending identities: the time, and numbers from a random start."""

    def __init__(self) -> None:
        self._time_ns = time.time_ns()
        self._number = int.from_bytes(os.urandom(8), "big") >> 2
        self._column, self._taken = self._make(_AT_ONCE), 0

    def take(self) -> Identity:
        """Return the next one."""
        self._number += 1
        return Identity(self._time_ns, self._number)

    def take_column(self, count: int) -> Any:  # noqa: ANN401  # pyarrow is untyped
        """Return the next ones as an Arrow column."""
        if self._taken + count > len(self._column):
            self._column, self._taken = self._make(max(count, _AT_ONCE)), 0
        self._taken += count
        return self._column.slice(self._taken - count, count)

    def _make(self, count: int) -> Any:  # noqa: ANN401
        # Later than those before, since their numbers need not be larger than all taken since.
        self._time_ns = max(self._time_ns + 1, time.time_ns())
        pairs = np.empty((count, 2), ">u8")
        pairs[:, 0] = self._time_ns
        pairs[:, 1] = np.arange(self._number + 1, self._number + 1 + count, dtype=np.uint64)
        self._number += count
        return pa.Array.from_buffers(IDENTITY_TYPE, count, [None, pa.py_buffer(pairs)])
