"""Whether the machine was started again since bytes were written."""

from __future__ import annotations

import uuid
from functools import lru_cache
from pathlib import Path

__all__ = ["boot_id"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return what differs after every start of the machine; where none is known, of the process."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return uuid.uuid4().hex
