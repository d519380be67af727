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

MOST_S = 300
"""For one dataset, on a busy machine; a signal ends the process then."""


def feed_damaged(kind: str, folder: Path, seconds: int) -> None:
    """Damage and read one dataset after the other; a finding is a seed, which does it again."""
    warnings.simplefilter("ignore")
    tempfile.tempdir = os.environ["ROBOREEL_FUZZ_FOLDER"]
    counter, chance = Counter(folder / "count"), random.Random(os.urandom(8))
    stop_s = time.monotonic() + seconds
    while time.monotonic() < stop_s:
        counter.add()
        damage(kind, chance.randrange(2**53), folder)


def damage(kind: str, seed: int, folder: Path) -> None:
    """Try one seed."""
    made = Path(tempfile.gettempdir(), "made")
    make(kind, made)
    done = mutate(seed, made)
    signal.alarm(MOST_S)
    try:
        exercise(kind, made)
    except BaseException:  # noqa: BLE001  # whatever it is, it is what we look for
        keep_finding(folder, f"{kind} {seed}: {done}".encode())
    signal.alarm(0)
    shutil.rmtree(made)
