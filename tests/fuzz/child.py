"""One parser fed for some time in a process of its own: ``python -m tests.fuzz.child TARGET …``.

The process ends at the first finding, and leaves the input that caused it.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import resource
import sys
import time
import traceback
from hashlib import sha256
from pathlib import Path

FOUND = 70
LIMIT_BYTES = 2 * 1024**3
"""Of data; address space would count what is mapped and never touched."""


class Counter:
    """Counts inputs in a mapped file, so that the count survives any end of the process."""

    def __init__(self, path: Path) -> None:
        if not path.exists() or path.stat().st_size != 8:
            path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self._count = int.from_bytes(self._map[:8], "little")

    def add(self) -> None:
        self._count += 1
        self._map[:8] = self._count.to_bytes(8, "little")


def main() -> None:
    """Feed one parser."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--plain", action="store_true", help="do not use atheris")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    (given.folder / "findings").mkdir(parents=True, exist_ok=True)
    feed = feed_plainly if given.plain else feed_by_coverage
    feed(given.target, given.folder, given.seconds)


def feed_plainly(name: str, folder: Path, seconds: int) -> None:
    """Feed mutations of the seeds."""
    from tests.fuzz.mutate import mutated
    from tests.fuzz.seeds import seeds
    from tests.fuzz.targets import TARGETS

    target, counter = TARGETS[name], Counter(folder / "count")
    inputs, chance = seeds(target.seeds), random.Random(os.urandom(8))
    stop_s = time.monotonic() + seconds
    while time.monotonic() < stop_s:
        data = mutated(chance, inputs, target.most_bytes)
        counter.add()
        try:
            target(data)
        except BaseException:  # noqa: BLE001  # whatever it is, it is what we look for
            keep_finding(folder, data)


def keep_finding(folder: Path, data: bytes) -> None:
    """Keep an input and what it caused, and end the process."""
    name = sha256(data).hexdigest()[:16]
    (folder / "findings" / name).write_bytes(data)
    (folder / "findings" / f"{name}.txt").write_text(traceback.format_exc())
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(FOUND)


def feed_by_coverage(name: str, folder: Path, seconds: int) -> None:
    """Feed what atheris makes of the seeds, guided by the branches that inputs reach."""
    import atheris

    with atheris.instrument_imports(include=["roboreel"]):
        from tests.fuzz.seeds import seeds
        from tests.fuzz.targets import TARGETS

    target, counter = TARGETS[name], Counter(folder / "count")
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for data in seeds(target.seeds):
        (corpus / f"seed-{sha256(data).hexdigest()[:16]}").write_bytes(data)

    def feed(data: bytes) -> None:
        counter.add()
        try:
            target(data)
        except BaseException:  # noqa: BLE001  # whatever it is, it is what we look for
            keep_finding(folder, data)

    options = {
        "max_total_time": seconds,
        "max_len": target.most_bytes,
        "timeout": 20,
        "rss_limit_mb": 3000,
        "artifact_prefix": f"{folder / 'findings'}/",
        "verbosity": 0,
        "print_final_stats": 0,
    }
    atheris.Setup([name, *(f"-{k}={v}" for k, v in options.items()), str(corpus)], feed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
