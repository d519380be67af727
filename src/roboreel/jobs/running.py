"""Carrying out one task of a job, so that it is done once however often it runs."""

from __future__ import annotations

import json
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roboreel.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.jobs.job import Job


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one execution of a task ended."""

    number: int
    seconds: float = 0.0
    error: str | None = None
    """Why it failed, in a sentence; None if the task is done."""
    details: str = ""
    """The traceback, if it failed."""


def run_task(job: Job, number: int) -> Outcome:
    """Carry out a task unless it is done, and return how that ended.

    What it writes appears at once, complete and synced, or not at all. Where two executions run at
    the same time, the second to finish deletes its own.
    """
    started_s = time.perf_counter()
    task = job.plan.task(number)
    if job.folder.is_done(task.id):
        return Outcome(number)
    try:
        job.check_exists()
        with job.folder.staging(task.id) as staged:
            summary = plain(job.operation.run(task, staged))
            job.folder.publish(task.id, staged, summary)
    except Exception as error:  # noqa: BLE001  # a task may fail in any way; the others go on
        known = isinstance(error, DatasetError | OSError)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - started_s
        return Outcome(number, seconds, text or type(error).__name__, traceback.format_exc())
    job.folder.forget_failure(task.id)
    return Outcome(number, time.perf_counter() - started_s)


def plain(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary as it comes back from its file.

    Raises:
        TypeError: It holds something else than plain values.
    """
    read: dict[str, Any] = json.loads(json.dumps(summary))
    return read
