"""Two processes that drive one job: one commits it, the other says so and leaves nothing behind."""

from __future__ import annotations

import errno
import subprocess

import pytest

from roboreel.errors import JobError
from roboreel.jobs import InProcess, Processes, create_job, open_job, run_job
from tests.job_operations import squares

GONE = "Another process has committed this job"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ROBOREEL_JOBS", str(tmp_path / "home"))


class Late:
    """Runs tasks after another process has finished the job."""

    def __init__(self, rival):
        self.rival = rival

    def open(self, job):
        run_job(self.rival, InProcess())
        self.rival.commit()
        return InProcess().open(job)


def test_whoever_comes_too_late_to_run_tasks_says_so_once(tmp_path):
    job = create_job(tmp_path / "job", squares(3))
    seen = []
    with pytest.raises(JobError, match=GONE):
        run_job(job, Late(open_job(job.path)), on_progress=seen.append)
    assert seen == []  # not as tasks that failed three times
    assert not job.path.exists()


def test_whoever_comes_too_late_to_commit_says_so(tmp_path):
    job = create_job(tmp_path / "job", squares(3))
    rival = open_job(job.path)
    run_job(job, InProcess())
    assert rival.commit()["count"] == 3
    with pytest.raises(JobError, match=GONE):
        job.commit()
    assert not job.path.exists()


def test_processes_that_cannot_be_started_are_failures_and_not_awaited(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    job = create_job(tmp_path / "job", squares(2))
    monkeypatch.setattr(subprocess, "Popen", refused)
    report = run_job(job, Processes(2), retries=1)
    assert [failure.number for failure in report.failed] == [0, 1]
    assert "No process could be started: [Errno" in report.failed[0].error
