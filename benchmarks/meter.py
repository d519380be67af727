"""What a step of a case costs: CPU, wall time, memory and disk.

Runs inside the measured process, under any interpreter: standard library only.
"""

from __future__ import annotations

import gc
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.memory import anonymous_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Meter", "Step", "folder_bytes"]


@dataclass(frozen=True)
class Step:
    """One measured stretch of a case."""

    name: str
    count: int
    """How many things were done: rows read, frames decoded."""
    start_s: float
    """On the system-wide monotonic clock, so that the parent can match its memory samples."""
    stop_s: float
    cpu_s: float
    """User and system time of all threads, and of child processes that ended inside the step."""
    memory_before: int | None
    memory_after: int | None
    disk_bytes: int
    """Growth of the watched folders."""

    @property
    def wall_s(self) -> float:
        """Seconds that passed."""
        return self.stop_s - self.start_s


@dataclass
class Meter:
    """Collects the steps of one case. A case receives it as its first argument."""

    watch: Sequence[Path] = ()
    """Folders whose growth counts as disk use."""
    steps: list[Step] = field(default_factory=list)
    notes: dict[str, float] = field(default_factory=dict)
    """Further numbers that a case reports: latencies, counts, checksums."""

    @contextmanager
    def step(self, name: str, count: int = 1) -> Iterator[None]:
        """Measure the block under a name, as ``count`` things done.

        Worker processes count once they have been waited for: end them inside the block.
        """
        gc.collect()
        disk = sum(map(folder_bytes, self.watch))
        before = anonymous_bytes(os.getpid())
        cpu, start = _cpu_s(), time.monotonic()
        yield
        stop, cpu = time.monotonic(), _cpu_s() - cpu
        after = anonymous_bytes(os.getpid())
        disk = sum(map(folder_bytes, self.watch)) - disk
        self.steps.append(Step(name, count, start, stop, cpu, before, after, disk))

    def note(self, **numbers: float) -> None:
        """Report further numbers beside the measured ones."""
        self.notes.update(numbers)


def folder_bytes(folder: Path) -> int:
    """Return the sizes of all files below a folder, added up; links are not followed."""
    return sum(
        _file_bytes(Path(parent, name)) for parent, _, names in os.walk(folder) for name in names
    )


def _file_bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # a temporary file that has just gone
        return 0


def _cpu_s() -> float:
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system
