"""Running the tasks of a job that are not done, and retrying those that fail."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.jobs.folder import Failure
from roboreel.numbers import check_at_least

if TYPE_CHECKING:
    from collections.abc import Callable

    from roboreel.jobs.executor import Executor, Session
    from roboreel.jobs.job import Job
    from roboreel.jobs.running import Outcome


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, after each task that ends for good."""

    done: int
    """Tasks that are done, those of earlier runs too."""
    total: int
    done_cost: float
    total_cost: float
    failure: Failure | None = None
    """Set if this task failed for good."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did."""

    ran: int
    skipped: int
    """Tasks that were done before."""
    failed: tuple[Failure, ...]


def shard_of(total: int, shard: tuple[int, int]) -> tuple[int, int]:
    """Check a shard, ``(0, 64)`` for the first of 64, and return it.

    Raises:
        ValueError: There is no such shard.
    """
    number, count = shard
    check_at_least(1, shards=count)
    if not 0 <= number < count:
        raise ValueError(
            f"Shard {number}/{count} does not exist: shards are counted from 0/{count} to "
            f"{count - 1}/{count}, of {total:,} tasks."
        )
    return number, count


def run_job(
    job: Job,
    on: Executor,
    *,
    shard: tuple[int, int] = (0, 1),
    retries: int = 2,
    on_progress: Callable[[Progress], object] = lambda _: None,
) -> Report:
    """Run the tasks of a job that are not done.

    A task that fails is tried again. If it keeps failing, that is recorded and the others continue.

    Args:
        job: The job.
        on: Where to run the tasks.
        shard: Which share of the tasks to run, ``(0, 64)`` for the first of 64: every 64th task.
        retries: How often to try again.
        on_progress: Called whenever a task has ended for good.

    Raises:
        JobError: Another process has committed or removed the job in the meantime.
    """
    check_at_least(0, retries=retries)
    number, count = shard_of(len(job.plan), shard)
    job.folder.remove_stale()
    mine = np.arange(number, len(job.plan), count)
    done = job.done()[mine]
    left = mine[~done]
    # The longest first: one that starts last would be awaited alone.
    left = left[np.argsort(-job.plan.cost[left], kind="stable")]
    cost = job.plan.cost[mine]
    progress = Progress(int(done.sum()), len(mine), float(cost[done].sum()), float(cost.sum()))
    run = _Run(job, left, retries, progress, on_progress)
    if run.waiting:
        try:
            with on.open(job) as session:
                run.drive(session)
        finally:
            if not job.exists():
                job.folder.remove_empty()
    failed = sorted(run.failed, key=lambda failure: failure.number)
    return Report(run.ran, int(done.sum()), tuple(failed))


class _Run:
    def __init__(
        self,
        job: Job,
        numbers: np.ndarray[tuple[int], np.dtype[np.int64]],
        retries: int,
        progress: Progress,
        on_progress: Callable[[Progress], object],
    ) -> None:
        self.waiting = deque(numbers.tolist())
        self.ran = 0
        self.failed: list[Failure] = []
        self._job = job
        self._retries = retries
        self._progress = progress
        self._on_progress = on_progress
        self._attempts: Counter[int] = Counter()

    def drive(self, session: Session) -> None:
        running = 0
        while self.waiting or running:
            while self.waiting and running < session.slots:
                session.submit(self.waiting.popleft())
                running += 1
            for outcome in session.wait():
                running -= 1
                self._take(outcome)

    def _take(self, outcome: Outcome) -> None:
        number, failure = outcome.number, None
        if outcome.error is not None:
            self._job.check_exists()
            self._attempts[number] += 1
            if self._attempts[number] <= self._retries:
                # After the others: what is wrong may pass, such as a full disk.
                self.waiting.append(number)
                return
            attempts = self._attempts[number]
            failure = Failure(number, outcome.error, attempts, outcome.details)
            self._job.folder.fail(self._job.plan.ids[number].decode(), failure)
            self.failed.append(failure)
        else:
            self.ran += 1
            cost = self._progress.done_cost + float(self._job.plan.cost[number])
            self._progress = replace(self._progress, done=self._progress.done + 1, done_cost=cost)
        self._on_progress(replace(self._progress, failure=failure))
