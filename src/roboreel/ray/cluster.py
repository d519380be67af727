"""The tasks of a job on a Ray cluster."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import ray

from roboreel.io.budget import process_budget
from roboreel.jobs.job import open_job
from roboreel.jobs.running import Outcome, run_task
from roboreel.jobs.worker import share_machine
from roboreel.numbers import check_at_least

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.jobs import Job
    from roboreel.jobs.executor import Session

# What a worker takes beside its budget: Python, libraries, a decoder.
_WORKER_BYTES = 256 * 1024**2
_SYSTEM_RETRIES = 3


class RayCluster:
    """Runs tasks on a Ray cluster whose machines share the job's folder and the dataset.

    A task of a machine that dies runs again elsewhere. Tasks return a few numbers only.

    Args:
        address: The cluster, such as ``"auto"``; by default the one that this process is connected
            to, or that runs here. If there is none, Ray starts on this machine.
        workers: How many tasks run at once at most; by default as many as the cluster has cores for.
        threads: Cores of each task.
        memory_bytes: The memory budget of each task; by default this process's.

    Raises:
        ValueError: A number is too small.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        threads: int = 1,
        memory_bytes: int | None = None,
    ) -> None:
        check_at_least(1, threads=threads, workers=1 if workers is None else workers)
        self.address = address
        self.workers = workers
        self.threads = threads
        self.memory_bytes = process_budget().limit_bytes if memory_bytes is None else memory_bytes

    def __repr__(self) -> str:
        return f"RayCluster({self.address!r}, threads={self.threads})"

    @contextmanager
    def open(self, job: Job) -> Iterator[Session]:
        """Connect, unless this process is connected, and make ready to run a job's tasks."""
        connects = not ray.is_initialized()
        if connects:
            ray.init(self.address, log_to_driver=False)
        session = _Tasks(job, self)
        try:
            yield session
        finally:
            session.cancel()
            if connects:
                ray.shutdown()


class _Tasks:
    """Tasks that were handed to Ray, by the object that stands for their outcome."""

    def __init__(self, job: Job, cluster: RayCluster) -> None:
        self._path = str(job.path)
        self._cluster = cluster
        self._running: dict[Any, int] = {}
        self._run = ray.remote(_run).options(
            num_cpus=cluster.threads,
            memory=cluster.memory_bytes + _WORKER_BYTES,
            max_retries=_SYSTEM_RETRIES,
            retry_exceptions=False,
        )

    @property
    def slots(self) -> int:
        """Enough that every core has a next task, and no more: waiting tasks take memory."""
        if self._cluster.workers is not None:
            return self._cluster.workers
        cores = int(ray.cluster_resources().get("CPU", 1))
        return max(2, 2 * cores // self._cluster.threads)

    def submit(self, number: int) -> None:
        reference = self._run.remote(self._path, number, self._cluster.memory_bytes)
        self._running[reference] = number

    def wait(self) -> list[Outcome]:
        ready, _ = ray.wait(list(self._running), num_returns=1)
        return [self._outcome(reference, self._running.pop(reference)) for reference in ready]

    def cancel(self) -> None:
        for reference in self._running:
            with suppress(Exception):  # It may have ended, and Ray with it.
                ray.cancel(reference, force=True)

    def _outcome(self, reference: Any, number: int) -> Outcome:  # noqa: ANN401  # untyped
        try:
            return Outcome(**ray.get(reference))
        except ray.exceptions.RayError as error:
            return Outcome(number, error=f"{type(error).__name__}: {error}")


def _run(path: str, number: int, memory_bytes: int) -> dict[str, Any]:
    assigned = ray.get_runtime_context().get_assigned_resources()
    share_machine(max(1, int(assigned.get("CPU", 1))), memory_bytes)
    return asdict(run_task(_open(path), number))


@lru_cache(maxsize=1)
def _open(path: str) -> Job:
    return open_job(path)
