"""The folder where a job is kept by default, and all jobs that can be found."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from roboreel.errors import JobError
from roboreel.jobs.job import Job, is_job, open_job
from roboreel.jobs.places import BESIDE, forget_place, job_home, noted_places

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from roboreel.jobs.plan import Plan


def job_path(plan: Plan, name: str, *, near: Path | None = None) -> Path:
    """Return the default folder of a job: the same plan has the same, so that it is resumed.

    Args:
        plan: The tasks.
        name: What the job is, for people.
        near: A folder on whose disk the job should be, since its files will move there. If jobs are
            kept on another one, the job is in ``.roboreel-jobs`` below this folder.
    """
    readable = re.sub(r"[^\w.-]+", "_", name)[:80]
    home = job_home()
    if near is not None and _disk(near) != _disk(home):
        home = near / BESIDE
    return home / f"{readable}-{plan.key[:12]}"


def _disk(folder: Path) -> int:
    """Return the disk that a folder is on, or will be on."""
    absolute = folder.expanduser().absolute()
    return next(path for path in (absolute, *absolute.parents) if path.exists()).stat().st_dev


def list_jobs(
    near: Path | None = None, *, on_unreadable: Callable[[JobError], object] = lambda _: None
) -> list[Job]:
    """Return jobs, by their folders; what is not a job is skipped.

    Args:
        near: Only those at, in or beside this folder: a job, a folder of jobs, or a dataset. By
            default those in the folder of jobs, and those that this user has made elsewhere.
        on_unreadable: Called for a job that cannot be opened, such as one of another version.
    """
    if near is None:
        paths = _inside(job_home()) | _elsewhere()
    else:
        near = near.expanduser().absolute()
        paths = {near} | _inside(near) | _inside(near / BESIDE) | _inside(near.parent / BESIDE)
    jobs = []
    for path in sorted(paths):
        try:
            if is_job(path):
                jobs.append(open_job(path))
        except JobError as error:  # noqa: PERF203  # one does not stop the others
            on_unreadable(error)
        except OSError:  # A folder of another user.
            continue
    return jobs


def _inside(folder: Path) -> set[Path]:
    return {path.absolute() for path in folder.iterdir()} if folder.is_dir() else set()


def _elsewhere() -> set[Path]:
    """Return the noted jobs. A job that is gone is forgotten, but not one whose disk may be."""
    noted = noted_places()
    for path in noted:
        with suppress(OSError):  # a disk that does not answer
            if path.parent.exists() and not path.exists():
                forget_place(path)
    return set(noted)
