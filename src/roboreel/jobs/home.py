"""The folder where jobs are kept by default."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import JobError
from roboreel.jobs.job import Job, open_job

if TYPE_CHECKING:
    from roboreel.jobs.plan import Plan

__all__ = ["job_home", "job_path", "list_jobs"]


def job_home() -> Path:
    """Return the folder of jobs: ``$ROBOREEL_JOBS``, or ``roboreel/jobs`` in the user's cache."""
    chosen = os.environ.get("ROBOREEL_JOBS")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(base) / "roboreel" / "jobs"


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
        home = near / ".roboreel-jobs"
    return home / f"{readable}-{plan.key[:12]}"


def _disk(folder: Path) -> int:
    """Return the disk that a folder is on, or will be on."""
    absolute = folder.expanduser().absolute()
    return next(path for path in (absolute, *absolute.parents) if path.exists()).stat().st_dev


def list_jobs(home: Path | None = None) -> list[Job]:
    """Return the jobs in a folder, by name; what is not a job is skipped."""
    home = job_home() if home is None else home
    found = []
    for path in sorted(home.iterdir()) if home.is_dir() else ():
        with suppress(JobError):
            found.append(open_job(path))
    return found
