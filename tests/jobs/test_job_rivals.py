"""Two processes that drive one job: one commits it, the other says so and leaves nothing behind."""

from __future__ import annotations

import errno
import subprocess

import pytest

from roboreel.cli.carrying_out import Where
from roboreel.errors import JobError
from roboreel.jobs import InProcess, Processes, Progress, create_job, execute, open_job, run_job
from tests.clean import clean_dataset
from tests.cli.test_cli import roboreel_
from tests.jobs.job_operations import squares

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
    seen: list[Progress] = []
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


def test_folders_that_a_late_task_has_made_are_removed(tmp_path):
    class Later(Late):
        def open(self, job):
            opened = super().open(job)
            (job.path / "staging").mkdir(parents=True)
            (job.path / "parts" / "3f").mkdir(parents=True)
            return opened

    job = create_job(tmp_path / "job", squares(3))
    with pytest.raises(JobError, match=GONE):
        run_job(job, Later(open_job(job.path)))
    assert not job.path.exists()


def test_a_cache_that_another_command_has_built_is_built(tmp_path, monkeypatch):
    arm, cache = clean_dataset(tmp_path / "arm"), tmp_path / "cache"
    words = ["cache", "build", str(arm), "--numbers-only", "--out", str(cache), "--workers", "1"]
    carry_out = Where.carry_out

    def late(self, plan, name):
        carry_out(self, plan, name)
        raise JobError("Another process has committed this job")

    monkeypatch.setattr(Where, "carry_out", late)
    done = roboreel_(*words)
    assert (done.code, done.err) == (0, "")
    assert "Built" in done.out


@pytest.mark.parametrize(("count", "others"), [(2, True), (1, False)])
def test_the_error_of_a_job_says_that_others_are_done_if_there_are(tmp_path, count, others):
    with pytest.raises(JobError, match=r"ValueError: 0 is unlucky\. ") as raised:
        execute(squares(count, fails=[0]), on=InProcess(), folder=tmp_path / "job", retries=0)
    assert ("The others are done." in str(raised.value)) is others
