"""Encoders that leave the priorities of threads alone."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_THREADS = Path("/proc/self/task")


@contextmanager
def kept_priorities() -> Iterator[None]:
    """Give this thread, and those that start meanwhile, the scheduling that this thread has now.

    SVT-AV1 makes its threads real-time where it may (as root, so in most containers), and the
    thread that opens it too, for good. On few cores they then starve the robot's own loops, and
    wait for each other for ever, since none of them gives way.
    """
    if sys.platform != "linux":
        yield
        return
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    before = set(_threads())
    try:
        yield
    finally:
        for thread in (0, *(set(_threads()) - before)):
            with suppress(OSError):  # It has ended.
                os.sched_setscheduler(thread, policy, param)


def _threads() -> list[int]:
    try:
        return [int(path.name) for path in _THREADS.iterdir()]
    except OSError:  # No /proc here.
        return []
