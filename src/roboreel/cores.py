"""How many cores there are to use."""

from __future__ import annotations

import os

_limit: int | None = None


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if _limit is not None:
        return _limit
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_cores(count: int) -> None:
    """Limit the cores of this process, which is one of several that share the machine."""
    global _limit  # a fact about the process
    _limit = count
