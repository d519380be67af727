"""Cases for the tests of the harness. A process that runs one imports the standard library alone."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.meter import Meter

MODULE = __name__


def spend(meter: Meter, megabytes: int = 0, file: str = "") -> None:
    """Hold memory for a while and write a file."""
    with meter.step("idle"):
        pass
    with meter.step("work", count=10):
        block = bytearray(megabytes * 1_000_000)
        block[::4096] = b"x" * len(block[::4096])
        time.sleep(2 if megabytes else 0)  # so that a busy machine takes its samples too
        del block
        if file:
            Path(file).write_bytes(bytes(1000))
    meter.note(answer=42)


def fail(meter: Meter) -> None:
    """Raise."""
    raise RuntimeError("the arm fell off")


def cache_once(meter: Meter) -> None:
    """Fill a cache that is not there yet."""
    cache = Path(os.environ["HF_HOME"], "cache")
    with meter.step("open"):
        if not cache.exists():
            cache.parent.mkdir(parents=True)
            cache.write_bytes(bytes(5000))
