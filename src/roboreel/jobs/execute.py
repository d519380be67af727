"""From a plan to its result, in one call."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.cores import usable_cores
from roboreel.errors import JobError
from roboreel.jobs.drive import Progress, run_job
from roboreel.jobs.executor import InProcess
from roboreel.jobs.home import job_path
from roboreel.jobs.job import create_job, finish_commit, is_committed
from roboreel.jobs.operation import Part, load_operation
from roboreel.jobs.processes import Processes
from roboreel.jobs.running import plain

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from roboreel.jobs.executor import Executor
    from roboreel.jobs.folder import Failure
    from roboreel.jobs.plan import Plan

SMALL_S = 3.0
"""A plan that takes less is carried out at once: starting processes would take as long."""


def execute(
    plan: Plan,
    *,
    on: Executor | None = None,
    folder: str | os.PathLike[str] | None = None,
    name: str = "job",
    retries: int = 2,
    on_progress: Callable[[Progress], object] = lambda _: None,
) -> Any:  # noqa: ANN401  # whatever the operation makes
    """Carry out a plan and return the operation's result.

    If a run is interrupted, the same call goes on where it stopped. The result has the same bytes
    wherever the tasks ran.

    Args:
        plan: The tasks.
        on: Where to run them. By default in this process if the plan is small, otherwise in a
            process for each core.
        folder: The job's folder, on a file system that all workers share. By default one in the
            folder of jobs, named by the plan; a small plan has none.
        name: What the job is, for people and for the name of its folder.
        retries: How often to try a task again.
        on_progress: Called whenever a task has ended for good.

    Raises:
        JobError: Tasks failed. The others are done; the same call tries those again.
    """
    if on is None and folder is None and (plan.total_cost < SMALL_S or len(plan) < 2):
        return _at_once(plan, on_progress)
    path = job_path(plan, name) if folder is None else Path(folder).expanduser().absolute()
    if is_committed(path, plan.key):
        return finish_commit(path)
    job = create_job(path, plan, name=name)
    if on is None:
        on = Processes() if usable_cores() > 1 else InProcess()
    report = run_job(job, on, retries=retries, on_progress=on_progress)
    if report.failed:
        raise failed_tasks(report.failed, len(plan), job.path)
    return job.commit()


def failed_tasks(failed: tuple[Failure, ...], total: int, path: Path) -> JobError:
    """Return the error that says which tasks failed."""
    first = failed[0]
    more = "" if len(failed) == 1 else f"{len(failed):,} tasks failed, the first of them "
    said = f"{more}task {first.number} of {total:,}".removeprefix(" ")
    stop = "" if first.error.endswith(".") else "."
    done = "The others are done. " if len(failed) < total else ""
    return JobError(
        f"{said[0].upper()}{said[1:]} failed {first.attempts} times: {first.error}{stop} {done}Run "
        f"it again to go on, or see `roboreel job status`: {str(path)!r}."
    )


def _at_once(plan: Plan, on_progress: Callable[[Progress], object]) -> Any:  # noqa: ANN401
    """Carry out a plan in this process, with nothing kept: a failure is raised as it is."""
    operation = load_operation(plan.operation)
    with tempfile.TemporaryDirectory(prefix="roboreel-job-") as scratch:
        parts = []
        for number in range(len(plan)):
            task = plan.task(number)
            folder = Path(scratch, task.id)
            folder.mkdir()
            parts.append(Part(task, folder, plain(operation.run(task, folder))))
            cost = float(plan.cost[: number + 1].sum())
            on_progress(Progress(number + 1, len(plan), cost, plan.total_cost))
        return operation.commit(plan, iter(parts))
