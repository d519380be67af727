"""Whole datasets, stores and buffers damaged at random and read, in a process of its own.

``python -m tests.fuzz.damage KIND FOLDER``. The process ends at the first finding, and leaves the seed,
which does the same damage again.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import warnings
from pathlib import Path

from tests.fuzz.child import LIMIT_BYTES, Counter, keep_finding
from tests.mutation import exercise, make, mutate

MOST_S = 120
"""For one dataset; a signal ends the process then."""


def main() -> None:
    """Damage and read one dataset after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    warnings.simplefilter("ignore")
    (given.folder / "findings").mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = os.environ.get("ROBOREEL_FUZZ_FOLDER") or tempfile.mkdtemp()
    counter, chance = Counter(given.folder / "count"), random.Random(os.urandom(8))
    stop_s = time.monotonic() + given.seconds
    while time.monotonic() < stop_s:
        counter.add()
        damage(given.kind, chance.randrange(2**53), given.folder)


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


if __name__ == "__main__":
    main()
