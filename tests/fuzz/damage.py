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

from roboreel.io.budget import process_budget
from tests.fuzz.child import Counter, keep_finding
from tests.fuzz.peak import Peak
from tests.mutation import exercise, make, mutate

__all__ = ["damage", "feed_damaged"]

MOST_CPU_S = 60
"""For one dataset; a signal ends the process then."""
BUDGET_BYTES = 64_000_000
REPORTED = 8
"""Of so many datasets, one is also reported on, which takes as long as all else."""


def feed_damaged(kind: str, folder: Path, seconds: int) -> None:
    """Damage and read one dataset after the other; a finding is a seed, which does it again."""
    warnings.simplefilter("ignore")
    tempfile.tempdir = os.environ["ROBOREEL_FUZZ_FOLDER"]
    process_budget().limit_bytes = BUDGET_BYTES
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
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    try:
        with Peak() as peak:
            exercise(kind, made, report=seed % REPORTED == 0)
        assert peak.taken_bytes < 1.25 * BUDGET_BYTES, f"it took {peak.taken_bytes:,} bytes"
    except BaseException:  # noqa: BLE001  # whatever it is, it is what we look for
        keep_finding(folder, f"{kind} {seed}: {done}".encode())
    signal.setitimer(signal.ITIMER_PROF, 0)
    shutil.rmtree(made)
