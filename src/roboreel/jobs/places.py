"""Where jobs are: the folder of jobs, and a note there of each job that is kept elsewhere."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from roboreel.errors import DatasetError
from roboreel.files import user_folder, write_atomically
from roboreel.io.reading import read_file

BESIDE = ".roboreel-jobs"
"""The folder of jobs beside a dataset, where its disk is not that of the folder of jobs."""
_SUFFIX = ".elsewhere"


def job_home() -> Path:
    """Return the folder of jobs: ``$ROBOREEL_JOBS``, or ``roboreel/jobs`` in the user's cache."""
    return user_folder("ROBOREEL_JOBS", "jobs")


def note_place(job: Path) -> None:
    """Note where a job is, so that it is listed. A job is made all the same where that fails."""
    with suppress(OSError, RuntimeError):
        if job.parent != job_home().absolute():
            write_atomically(_note(job), os.fsencode(job), sync=False)


def forget_place(job: Path) -> None:
    """Remove the note of a job that is gone."""
    with suppress(OSError, RuntimeError):
        _note(job).unlink(missing_ok=True)


def noted_places() -> list[Path]:
    """Return the folders of jobs that are noted, whether or not the jobs are still there."""
    found = []
    for note in sorted(job_home().glob(f"*{_SUFFIX}")):
        with suppress(DatasetError):
            found.append(Path(os.fsdecode(read_file(note, "note of a job"))))
    return found


def _note(job: Path) -> Path:
    return job_home() / f"{hashlib.sha256(os.fsencode(job)).hexdigest()[:16]}{_SUFFIX}"
