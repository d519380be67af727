"""Where the tasks of a command run: options that long commands share, and what they do."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from roboreel.cli.console import ProgressReport, errors, print_line, print_problem
from roboreel.files import write_atomically
from roboreel.forking import SAFELY
from roboreel.jobs import InProcess, Processes, create_job, execute, job_path
from roboreel.text import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.jobs import Executor, Job, Plan, Progress


WorkersOption = Annotated[
    int | None,
    typer.Option(min=1, help="Processes, one core each. Default: all cores, if it takes long."),
]
OnOption = Annotated[
    Literal["local", "ray", "slurm"] | None,
    typer.Option(
        help="local: this machine, the default. ray: a cluster. slurm: write an array script."
    ),
]
AddressOption = Annotated[
    str | None, typer.Option(help="The Ray cluster. Default: the running one, or this machine.")
]
ShardsOption = Annotated[int, typer.Option(min=1, help="With --on slurm: tasks of the array.")]
JobOption = Annotated[
    Path | None,
    typer.Option(
        "--job", metavar="DIR", help="The job's folder, shared by all machines.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class Where:
    """Where to run the tasks of a plan: a group of options."""

    workers: WorkersOption = None
    on: OnOption = None
    address: AddressOption = None
    shards: ShardsOption = 64
    job: JobOption = None

    @property
    def is_chosen(self) -> bool:
        """Whether any option was given."""
        return self != Where(shards=self.shards)

    def executor(self) -> Executor | None:
        """Return what runs the tasks; None to decide by the plan."""
        if self.on == "ray":
            from roboreel.ray import RayCluster

            cluster: Executor = RayCluster(self.address, workers=self.workers)
            return cluster
        if self.workers is None:
            return None
        return Processes(self.workers) if self.workers > 1 else InProcess()

    def carry_out(self, plan: Plan, name: str) -> Any:  # noqa: ANN401  # the operation's result
        """Carry out a plan and return its result.

        Raises:
            typer.Exit: With --on slurm: the script is written, and the rest is up to Slurm.
            JobError: Tasks failed.
        """
        if self.on == "slurm":
            self.write_array(plan, name, job_path(plan, name))
        try:
            with ProgressReport() as bar:
                on, folder = self.executor(), self.job
                return execute(
                    plan,
                    on=on,
                    folder=folder,
                    name=name,
                    on_progress=lambda now: show_tasks(now, bar),
                )
        except KeyboardInterrupt:
            if (self.job or job_path(plan, name)).exists():
                errors.print("Stopped. The same command goes on after the tasks that are done.")
            raise

    def write_array(self, plan: Plan, name: str, folder: Path) -> NoReturn:
        """Make a job and write its array script.

        Args:
            plan: The tasks.
            name: What the job is, for people.
            folder: The job's folder, unless an option names one.

        Raises:
            typer.Exit: Always: the rest is up to Slurm.
        """
        job = create_job(folder if self.job is None else self.job, plan, name=name)
        _write_array(job, self.shards)
        raise typer.Exit


def show_tasks(now: Progress, bar: ProgressReport) -> None:
    """Show how many tasks of a job are done, and which one failed."""
    bar.show("Tasks", now.done, now.total)
    if now.failure is not None:
        print_problem(f"Task {now.failure.number} failed: {now.failure.error}")


def _write_array(job: Job, shards: int) -> None:
    script = job.path / "array.sh"
    write_atomically(script, "\n".join(_array_lines(job, shards)) + "\n")
    folder = shlex.quote(str(job.path))
    print_line(f"{len(job.plan):,} tasks in {shards} shards: {job.path}")
    print_line("Submit them, then commit when all are done:")
    print_line(f"  array=$(sbatch --parsable {shlex.quote(str(script))})")
    commit = shlex.quote(f"{_roboreel()} job commit {folder}")
    print_line(f"  sbatch --dependency=afterok:$array --wrap {commit}")


def _array_lines(job: Job, shards: int) -> Iterator[str]:
    folder = shlex.quote(str(job.path))
    yield "#!/bin/sh"
    yield f"#SBATCH --job-name={shlex.quote(readable(job.name))}"
    yield f"#SBATCH --array=0-{shards - 1}"
    yield "#SBATCH --cpus-per-task=1"
    yield f'exec {_roboreel()} job run {folder} --shard "$SLURM_ARRAY_TASK_ID/{shards}"'


def _roboreel() -> str:
    # What `-m` finds in the working directory of a node is not meant.
    code = "import sys; sys.path.remove(''); from roboreel.__main__ import main; main()"
    how = [*SAFELY, "-m", "roboreel"] if SAFELY else ["-c", code]
    return shlex.join([sys.executable, *how])
