"""Feeds every parser and damages datasets of every kind in turn, in child processes.

``python -m tests.fuzz --seconds 600``; run it again to go on. Inputs that reached something new are kept
in ``.fuzz/``, and so are findings: each becomes a test. Ends with 1 if there was a finding.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from tests import PROJECT
from tests.faults.children import import_all
from tests.fuzz.child import FOUND, Parsers
from tests.measured import COUNTS, add_counts, read_counts

GRACE_S = 1800
"""What a child may take longer than it was told, on a busy machine. An input has 5 CPU s: see `child`."""


def main() -> None:
    """Run slices of all targets until the time is up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--slice", type=int, default=30, help="seconds of one of them at a time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", help="names of parsers and kinds of datasets")
    parser.add_argument("--state", type=Path, default=PROJECT / ".fuzz")
    parser.add_argument("--counts", type=Path, default=COUNTS)
    parser.add_argument("--plain", action="store_true", help="do not use atheris")
    given = parser.parse_args()
    sys.exit(bool(Campaign(given).run()))


@dataclass(frozen=True)
class Slice:
    """One target fed for some time, by a child."""

    name: str
    state: Path
    scratch: Path
    deadline_s: float

    @property
    def output(self) -> Path:
        """What the child prints."""
        return self.state / "output.txt"

    def inputs(self) -> int:
        """Return how many inputs there were."""
        count = self.state / "count"
        return int.from_bytes(count.read_bytes(), "little") if count.exists() else 0

    def modules(self) -> list[str]:
        """Return what the child had to import, which the next one need not."""
        named = self.state / "modules"
        return named.read_text().split() if named.exists() else []

    def problem(self, code: int) -> str | None:
        """Return what is wrong with a child that ended so."""
        if code == 0:
            return None
        if code == FOUND:
            lines = self.output.read_text(errors="replace").strip().splitlines() or [""]
            return lines[-1]
        # Whatever killed it would end a user's process, too.
        kept = self.output.with_suffix(f".{time.time_ns()}.txt")
        shutil.copy(self.output, kept)
        hangs = time.monotonic() > self.deadline_s
        return f"hangs: {kept}" if hangs else f"ended with {code}: {kept}"


class Campaign:
    """Slices of all targets, some at a time.

    What is fed is imported once, and children are forked: importing takes longer than many slices.
    """

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._parsers = Parsers.load(plain=given.plain)
        self._names: list[str] = given.only or self._parsers.names
        self._running: dict[int, Slice] = {}
        self._failed: set[str] = set()

    def run(self) -> set[str]:
        """Feed until the time is up; return the names of those with a finding."""
        from tests.mutation import keep_templates  # now that atheris follows what it imports

        stop_s = time.monotonic() + self._given.seconds
        with TemporaryDirectory(dir=fast_folder()) as templates:
            keep_templates(Path(templates))
            for section in cycle(("parser", "dataset")):
                if time.monotonic() >= stop_s or self._failed.issuperset(self._names):
                    break
                started = self._start_one_of(section)
                while len(self._running) >= (self._given.jobs if started else 1):
                    self._wait()
            while self._running:
                self._wait()
        return self._failed

    def _start_one_of(self, section: str) -> bool:
        """Start what is furthest behind its share, if anything can be started."""
        busy = {piece.name for piece in self._running.values()} | self._failed
        names = [name for name in self._names if name not in busy]
        names = [name for name in names if self._parsers.counted_as(name)[0] == section]
        if not names:
            return False
        counts = read_counts(self._given.counts).get(section, {})
        _, unit = self._parsers.counted_as(names[0])
        share = self._parsers.share_of
        self._start(min(names, key=lambda name: counts.get(name, {}).get(unit, 0) / share(name)))
        return True

    def _start(self, name: str) -> None:
        state = self._given.state / name
        (state / "findings").mkdir(parents=True, exist_ok=True)
        for old in ("count", "modules"):
            (state / old).unlink(missing_ok=True)
        scratch = Path(mkdtemp(dir=fast_folder()))
        seconds = self._given.slice
        piece = Slice(name, state, scratch, time.monotonic() + seconds + GRACE_S)
        child = os.fork()
        if child == 0:
            self._parsers.feed_here(name, state, scratch, seconds, piece.output)
        self._running[child] = piece

    def _wait(self) -> None:
        """Wait for a moment, or until a child has ended."""
        for child, piece in self._running.items():
            if time.monotonic() > piece.deadline_s:
                os.kill(child, 9)
        ended, status = os.waitpid(-1, os.WNOHANG)
        if not ended:
            time.sleep(0.05)
            return
        piece = self._running.pop(ended)
        problem = piece.problem(os.waitstatus_to_exitcode(status))
        shutil.rmtree(piece.scratch, ignore_errors=True)
        import_all(piece.modules())
        section, unit = self._parsers.counted_as(piece.name)
        numbers = {unit: piece.inputs(), "findings": int(problem is not None)}
        counts = read_counts(self._given.counts).get(section, {}).get(piece.name, {})
        clean = 0 if problem is not None else counts.get("clean", 0) + piece.inputs()
        add_counts(section, piece.name, numbers, self._given.counts, clean=clean)
        if problem is not None:
            self._failed.add(piece.name)
            print(f"{piece.name}: {problem}", flush=True)


def fast_folder() -> Path | None:
    """Return a folder in memory, where there is one."""
    fast = Path("/dev/shm")
    return fast if os.access(fast, os.W_OK) else None


if __name__ == "__main__":
    main()
