"""Whole datasets, stores and buffers, damaged at random and read in every way."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
import warnings
from pathlib import Path

from tests.fuzz.child import Counter, keep_finding
from tests.mutation import exercise, make, mutate

__all__ = ["feed_damaged"]

MOST_CPU_S = 60
"""For one dataset; a signal ends the process then."""
MOST_DATASETS = 60
"""In one slice: shards take milliseconds, videos a hundred times as long, and all should have their turn."""


def feed_damaged(kind: str, folder: Path, seconds: int) -> None:
    """Damage and read one dataset after the other; a finding is a seed, which does it again."""
    warnings.simplefilter("ignore")
    tempfile.tempdir = os.environ["ROBOREEL_FUZZ_FOLDER"]
    counter, chance = Counter(folder / "count"), random.Random(os.urandom(8))
    stop_s = time.monotonic() + seconds
    for _ in range(MOST_DATASETS):
        if time.monotonic() >= stop_s:
            break
        counter.add()
        damage(kind, chance.randrange(2**53), folder)


def damage(kind: str, seed: int, folder: Path) -> None:
    """Try one seed."""
    made = Path(tempfile.gettempdir(), "made")
    make(kind, made)
    done = mutate(seed, made)
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    try:
        exercise(kind, made)
    except BaseException:  # noqa: BLE001  # whatever it is, it is what we look for
        keep_finding(folder, f"{kind} {seed}: {done}".encode())
    signal.setitimer(signal.ITIMER_PROF, 0)
    shutil.rmtree(made)
