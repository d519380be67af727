"""One parser fed, or one kind of dataset damaged, for some time in a process of its own.

The process ends at the first finding, and leaves the input that caused it.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import random
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.fuzz.targets import Target

__all__ = ["FOUND", "Counter", "Parsers", "keep_finding"]

FOUND = 70
MOST_CPU_S = 5.0
"""For one input. Time on the clock says nothing on a busy machine."""
SHARES = {"numeric-v2": 12, "numeric-v3": 9, "video-v2": 5, "image-v3": 3, "video-v3": 2}
SHARES |= dict.fromkeys(("shards", "replay", "cache"), 1)
"""How many datasets of each kind are damaged, compared with others: those with video take longer."""
MOST_TAKEN_BYTES = 80_000_000
"""By one input."""
LIMIT_BYTES = 2 * 1024**3
"""Of data; address space would count what is mapped and never touched."""


class Counter:
    """Counts inputs in a mapped file, so that the count survives any end of the process."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self._count = 0

    def add(self) -> None:
        self._count += 1
        self._map[:8] = self._count.to_bytes(8, "little")


@dataclass(frozen=True)
class Parsers:
    """All that can be fed, imported and ready."""

    targets: Mapping[str, Target]
    kinds: Mapping[str, str]
    """Kinds of datasets, by the names of what damages them."""
    plain: bool
    """Whether mutations are random, without atheris."""

    @classmethod
    def load(cls, *, plain: bool) -> Parsers:
        """Import all parsers, so that atheris follows them where it is installed."""
        plain = plain or importlib.util.find_spec("atheris") is None
        if plain:
            from tests.fuzz.targets import TARGETS
        else:
            import atheris

            with atheris.instrument_imports(include=["roboreel"], enable_loader_override=False):
                from tests.fuzz.targets import TARGETS
        from tests.mutation import KINDS

        return cls(TARGETS, {f"damaged {kind}": kind for kind in KINDS}, plain)

    @property
    def names(self) -> list[str]:
        """What can be fed."""
        return [*self.targets, *self.kinds]

    def counted_as(self, name: str) -> tuple[str, str]:
        """Return in which table of counts something belongs, and what is counted."""
        return ("dataset", "damaged") if name in self.kinds else ("parser", "inputs")

    def share_of(self, name: str) -> int:
        """Return how many are wanted of one, compared with the others of its table."""
        return SHARES[self.kinds[name]] if name in self.kinds else self.targets[name].share

    def feed_here(
        self, name: str, state: Path, scratch: Path, seconds: int, output: Path
    ) -> NoReturn:
        """Feed something, in a process that was forked for it, and end the process."""
        try:
            handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            os.environ["ROBOREEL_FUZZ_FOLDER"] = str(scratch)
            resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
            if name in self.kinds:
                from tests.fuzz.damage import feed_damaged

                feed_damaged(self.kinds[name], state, seconds)
            elif self.plain:
                feed_plainly(self.targets[name], state, seconds)
            else:
                feed_by_coverage(self.targets[name], state, seconds)
            (state / "modules").write_text(" ".join(sys.modules))
            os._exit(0)
        except BaseException:  # noqa: BLE001  # the child must end here, whatever happens
            traceback.print_exc()
            os._exit(1)


class Fed:
    """Feeds inputs, counts them, and keeps the one that took longest; ends the process at a finding.

    Args:
        target: The parser.
        folder: Where the count, the findings and the slowest input belong.
    """

    def __init__(self, target: Target, folder: Path) -> None:
        self._target, self._folder = target, folder
        self._counter = Counter(folder / "count")
        self._longest_s, self._most_bytes = 0.05, most_resident()
        signal.signal(signal.SIGPROF, _refuse)

    def __call__(self, data: bytes) -> None:
        """Feed one."""
        self._counter.add()
        start_s = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
        try:
            self._target(data)
            self._check_memory()
        except BaseException:  # noqa: BLE001  # whatever it is, it is what we look for
            keep_finding(self._folder, data)
        used_s = time.process_time() - start_s
        if used_s > self._longest_s:
            self._longest_s = used_s
            (self._folder / "slowest").write_bytes(data)
            (self._folder / "slowest.txt").write_text(f"{used_s:.3f} CPU seconds\n")

    def _check_memory(self) -> None:
        before, self._most_bytes = self._most_bytes, most_resident()
        taken = self._most_bytes - before
        assert taken < MOST_TAKEN_BYTES, f"one input took {taken:,} bytes"


def most_resident() -> int:
    """Return the most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _refuse(*_: object) -> NoReturn:
    raise AssertionError(f"one input took {MOST_CPU_S} CPU seconds")


def feed_plainly(target: Target, folder: Path, seconds: int) -> None:
    """Feed mutations of the seeds, and of what atheris found."""
    from tests.fuzz.mutate import mutated

    inputs = [path.read_bytes() for path in corpus(target, folder).iterdir()]
    feed, chance = Fed(target, folder), random.Random(os.urandom(8))
    stop_s = time.monotonic() + seconds
    while time.monotonic() < stop_s:
        feed(mutated(chance, inputs, target.most_bytes))


def corpus(target: Target, folder: Path) -> Path:
    """Return the folder of inputs that mutations start from, which has the seeds at least."""
    from tests.fuzz.seeds import seeds

    kept = folder / "corpus"
    if not kept.exists():
        kept.mkdir()
        for data in seeds(target.seeds):
            (kept / f"seed-{sha256(data).hexdigest()[:16]}").write_bytes(data)
    return kept


def keep_finding(folder: Path, data: bytes) -> NoReturn:
    """Keep an input and what it caused, and end the process."""
    name = sha256(data).hexdigest()[:16]
    (folder / "findings" / name).write_bytes(data)
    (folder / "findings" / f"{name}.txt").write_text(traceback.format_exc())
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(FOUND)


def feed_by_coverage(target: Target, folder: Path, seconds: int) -> None:
    """Feed what atheris makes of the seeds, guided by the branches that inputs reach."""
    import atheris

    options = {
        "max_total_time": seconds,
        "max_len": target.most_bytes,
        "timeout": 1200,  # By the clock; `Fed` measures better, unless a C function never returns.
        "rss_limit_mb": 3000,
        "artifact_prefix": f"{folder / 'findings'}/",
        "verbosity": 0,
        "print_final_stats": 0,
    }
    atheris.Setup(
        ["fuzz", *(f"-{k}={v}" for k, v in options.items()), str(corpus(target, folder))],
        Fed(target, folder),
    )
    atheris.Fuzz()
