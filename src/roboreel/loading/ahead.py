"""How far ahead of the training loop batches are read, and by which threads or processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias

from roboreel.cores import usable_cores
from roboreel.numbers import check_at_least

Workers: TypeAlias = "int | Literal['auto']"
"""Processes that read batches; 0 reads by threads of this process."""

# Up to about this many decoding threads, one process scales: see benchmarks/ceiling.
_THREADS_PER_PROCESS = 4
# Below, processes cost more than they bring.
_LEAST_CORES = 8


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """How far ahead of the training loop batches are read."""

    threads: int | None = None
    """Batches that are read side by side by this process; 2 by default. None with workers."""
    prefetch: int | None = None
    """Batches that are begun or ready, ahead of the one in use; by default 4, or 2 per worker."""
    workers: int = 0
    """Processes that read batches, one each at a time."""

    def __post_init__(self) -> None:
        check_at_least(0, workers=self.workers)
        check_at_least(1, threads=self.lanes, prefetch=self.depth)
        if self.workers and self.threads is not None:
            raise ValueError(_describe_both(self.threads, self.workers))

    @property
    def lanes(self) -> int:
        """Batches, or groups of them, that are read side by side."""
        if self.workers:
            return self.workers
        return 2 if self.threads is None else self.threads

    @property
    def depth(self) -> int:
        """Batches that are begun or ready, ahead of the one in use."""
        if self.prefetch is None:
            return max(4, 2 * self.workers)
        return self.prefetch

    def together(self) -> int:
        """Return how many batches make a group, if several are read at a time."""
        return max(1, self.depth // max(2, self.workers))


def choose_workers(workers: Workers, *, is_costly: bool, threads: int | None = None) -> int:
    """Return how many processes read batches.

    Args:
        workers: What was asked for.
        threads: The threads that were asked for, if any.
        is_costly: Whether images are decoded or transforms are called. Reading numbers costs less
            than handing them over from another process.

    Raises:
        ValueError: It is neither a number nor ``"auto"``, or contradicts ``threads``.
    """
    if isinstance(workers, str):
        if workers != "auto":
            raise ValueError(f"workers is {workers!r}: give a number or 'auto'.")
        if threads is not None:
            raise ValueError(_describe_both(threads, workers))
        cores = cores_of_rank()
        return cores // _THREADS_PER_PROCESS if is_costly and cores >= _LEAST_CORES else 0
    return workers


def cores_of_rank() -> int:
    """Return this process's share of the cores, when a launcher started several on the machine."""
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, usable_cores() // (int(ranks) if ranks.isdigit() and int(ranks) else 1))


def _describe_both(threads: int, workers: Workers) -> str:
    return (
        f"threads is {threads} and workers is {workers!r}: batches are read by threads of this "
        "process or by workers, one batch each. Give one of the two."
    )
