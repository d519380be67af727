"""Where tasks run: the contract of executors, and the one that runs them in this process."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from roboreel.jobs.running import run_task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from roboreel.jobs.job import Job
    from roboreel.jobs.running import Outcome


class Session(Protocol):
    """Runs the tasks of one job, several at a time."""

    @property
    def slots(self) -> int:
        """How many tasks to hand over at a time. More would only wait."""

    def submit(self, number: int) -> None:
        """Hand over a task."""

    def wait(self) -> list[Outcome]:
        """Wait until at least one task has ended, and return those that have.

        A task whose process or machine died has ended with an error.
        """


class Executor(Protocol):
    """A way to run tasks."""

    def open(self, job: Job) -> AbstractContextManager[Session]:
        """Prepare to run a job's tasks. On exit, even after an interrupt, nothing is left running."""


class InProcess:
    """Runs tasks in this process, one after the other, with all of its threads."""

    @contextmanager
    def open(self, job: Job) -> Iterator[Session]:
        """Make ready to run a job's tasks."""
        yield _Here(job)


class _Here:
    slots = 1

    def __init__(self, job: Job) -> None:
        self._job = job
        self._waiting: list[int] = []

    def submit(self, number: int) -> None:
        self._waiting.append(number)

    def wait(self) -> list[Outcome]:
        return [run_task(self._job, self._waiting.pop(0))]
