"""roboreel job: long work that runs elsewhere, or was interrupted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roboreel.check.check_job import findings_of
from roboreel.cli.arguments import JsonOption
from roboreel.cli.carrying_out import (
    AddressOption,
    OnOption,
    Where,
    WorkersOption,
    show_tasks,
)
from roboreel.cli.check import print_findings
from roboreel.cli.commands import group_of
from roboreel.cli.console import (
    ProgressReport,
    errors,
    literal,
    output,
    print_json,
    print_line,
    print_problem,
    text_table,
)
from roboreel.cli.stats import print_stats
from roboreel.cores import usable_cores
from roboreel.dataset.statistics_job import stats_of
from roboreel.errors import JobError
from roboreel.jobs import (
    InProcess,
    Processes,
    commit_job,
    job_home,
    list_jobs,
    open_job,
    remove_job,
    run_job,
)
from roboreel.jobs.job import is_committed
from roboreel.words import counted

if TYPE_CHECKING:
    from roboreel.jobs import Executor, Job, Report


job = group_of("job")

JobArgument = Annotated[
    Path, typer.Argument(metavar="JOB", help="The job's folder.", show_default=False)
]
RetriesOption = Annotated[int, typer.Option(min=0, help="How often to try a task again.")]
_MOST_FAILURES = 20


@job.command()
def run(
    path: JobArgument,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Which share of the tasks: 0/64 to 63/64.")
    ] = "0/1",
    workers: WorkersOption = None,
    retries: RetriesOption = 2,
) -> None:
    """Run the tasks that are not done, or a share of them.

    Exit codes: 0 all are done; 1 some failed.
    """
    share = _shard(shard)
    opened = open_job(path)
    report = _run(opened, _local(workers), shard=share, retries=retries)
    print_line(f"Tasks done now: {report.ran:,}; before: {report.skipped:,}.")
    _exit_if_failed(opened, report)


@job.command()
def commit(path: JobArgument, as_json: JsonOption = False) -> None:
    """Join what the tasks have made, and publish it. The job is then gone."""
    operation = _operation(path)
    print_result(operation, commit_job(path), as_json=as_json)


@job.command()
def resume(
    path: JobArgument,
    workers: WorkersOption = None,
    on: OnOption = None,
    address: AddressOption = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every byte first; redo what is damaged.")
    ] = False,
    retries: RetriesOption = 2,
    as_json: JsonOption = False,
) -> None:
    """Run the tasks that are not done or failed, then commit."""
    if on == "slurm":
        raise typer.BadParameter("Submit array.sh again.", param_hint="'--on'")
    if is_committed(path.absolute()):  # only its folder is not gone yet
        print_result("", commit_job(path), as_json=as_json)
        return
    opened = open_job(path)
    if verify and (damaged := opened.verify()):
        print_problem(f"{len(damaged):,} tasks are damaged, and done again.")
    executor = Where(workers, on, address).executor() or _local(workers)
    _exit_if_failed(opened, _run(opened, executor, retries=retries))
    print_result(opened.plan.operation, opened.commit(), as_json=as_json)


@job.command()
def status(path: JobArgument, as_json: JsonOption = False) -> None:
    """Show how far a job is, and what failed."""
    opened = open_job(path)
    now = opened.status()
    failed = [{"task": f.number, "error": f.error, "attempts": f.attempts} for f in now.failed]
    if as_json:
        counts = {"tasks": now.total, "done": now.done, "share": round(now.share, 4)}
        print_json({"name": opened.name, **counts, "failed": failed})
        return
    print_line(
        f"{opened.name}: {now.done:,} of {now.total:,} tasks done, {now.share:.1%} of the work."
    )
    if now.is_complete:
        print_line("All tasks are done. Run `roboreel job commit`.")
    elif now.remaining_s:
        print_line(f"The rest takes one core about {_duration(now.remaining_s)}.")
    for failure in now.failed[:_MOST_FAILURES]:
        print_problem(f"Task {failure.number} failed {failure.attempts} times: {failure.error}")
    if len(now.failed) > _MOST_FAILURES:
        print_line(f"… and {len(now.failed) - _MOST_FAILURES:,} more failed.")


@job.command("list")
def list_(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="A dataset or a folder: only the jobs in it and beside it.",
            show_default=False,
        ),
    ] = None,
    home: Annotated[Path | None, typer.Option("--home", help="The folder of jobs.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs that are not committed, wherever you have made them."""
    if path is not None and home is not None:
        raise typer.BadParameter("give a folder once, as PATH.", param_hint="'--home'")
    if path is not None and not path.expanduser().is_dir():
        raise JobError(f"There is no folder {str(path)!r}.")
    place = home if path is None else path
    found = list_jobs(place, on_unreadable=lambda e: print_problem(str(e), console=errors))
    jobs = [(one, one.status()) for one in found]
    if as_json:
        print_json([{"path": str(one.path), "tasks": s.total, "done": s.done} for one, s in jobs])
        return
    if not jobs:
        print_line(f"No jobs in {place or job_home()}{'' if place else ', and none elsewhere'}.")
        return
    table = text_table("job", "tasks", "done", "failed")
    for one, now in jobs:
        cells = f"{now.total:,}", f"{now.share:.0%}", f"{len(now.failed):,}"
        table.add_row(literal(str(one.path)), *cells)
    output.print(table)


@job.command()
def remove(path: JobArgument) -> None:
    """Remove a job and what its tasks have made."""
    opened = open_job(path)
    remove_job(opened.path)
    print_line(f"Removed {path}.")


def _operation(path: Path) -> str:
    """Return the operation of a job; an empty text if only its result is left."""
    try:
        return open_job(path).plan.operation
    except JobError:
        return ""


def _local(workers: int | None) -> Executor:
    count = usable_cores() if workers is None else workers
    return Processes(count) if count > 1 else InProcess()


def _run(opened: Job, executor: Executor, **how: Any) -> Report:  # noqa: ANN401  # as run_job takes them
    with ProgressReport() as bar:
        return run_job(opened, executor, on_progress=lambda now: show_tasks(now, bar), **how)


def _exit_if_failed(opened: Job, report: Report) -> None:
    if report.failed:
        print_line(
            f"{len(report.failed):,} tasks failed. Resume with: roboreel job resume {opened.path}"
        )
        raise typer.Exit(2)


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise typer.BadParameter(
            f"{text!r} is not a shard: write 0/64 for the first of 64.", param_hint="'--shard'"
        )
    return int(match[1]), int(match[2])


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"


# What a committed job has made, as the command that planned it prints it.


def print_result(operation: str, result: Any, *, as_json: bool) -> None:  # noqa: ANN401
    """Print the result of an operation.

    Args:
        operation: Its name, as in the plan.
        result: What its commit returned.
        as_json: Whether to print plain values.

    Raises:
        typer.Exit: A check found errors.
    """
    kind = operation.partition(":")[0]
    if kind == "roboreel.check.check_job":
        findings = findings_of(result)
        if as_json:
            print_json(findings.to_json())
        else:
            print_findings(findings)
        raise typer.Exit(findings.exit_code())
    if as_json:
        print_json(result)
    elif kind == "roboreel.dataset.statistics_job":
        print_stats(stats_of(result))
    elif kind == "roboreel.dataset.cache.build_job":
        print_line(f"Built: {result['path']}")
    elif kind == "roboreel.edit.edit_job":
        print_line(f"Written: {counted(result['episodes'], 'episode')} to {result['path']}.")
    else:
        print_line("Committed.")
