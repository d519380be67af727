"""Jobs are found again: in the folder of jobs, beside a dataset, and wherever else they were made."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from roboreel.jobs import InProcess, create_job, execute, list_jobs, remove_job
from tests.cli.test_cli import roboreel_
from tests.jobs.job_operations import squares


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ROBOREEL_JOBS", str(tmp_path / "home"))
    return tmp_path / "home"


def listed(*arguments):
    return [job["path"] for job in json.loads(roboreel_("job", "list", *arguments, "--json").out)]


def test_a_job_that_was_made_elsewhere_is_listed_until_it_is_gone(tmp_path, home):
    near, far = home / "near", tmp_path / "disk" / ".roboreel-jobs" / "far-ümlaut"
    for path in (near, far):
        create_job(path, squares(3))
    assert listed() == sorted(map(str, (near, far)))
    remove_job(far)
    assert [path.name for path in home.iterdir()] == ["near"]
    create_job(far, squares(3))
    shutil.rmtree(far)  # by hand
    assert listed() == [str(near)]
    assert [path.name for path in home.iterdir()] == ["near"]


def test_a_job_whose_disk_is_not_mounted_is_remembered(tmp_path):
    far = tmp_path / "disk" / "job"
    create_job(far, squares(3))
    (tmp_path / "disk").rename(tmp_path / "away")
    assert listed() == []
    (tmp_path / "away").rename(tmp_path / "disk")
    assert listed() == [str(far)]


def test_a_job_that_runs_to_its_end_leaves_no_note(tmp_path, home):
    assert execute(squares(3), on=InProcess(), folder=tmp_path / "job")["count"] == 3
    assert list(home.iterdir()) == []


def test_a_job_is_made_where_no_note_can_be_written(tmp_path, home):
    home.write_text("a file")
    assert create_job(tmp_path / "job", squares(3)).path.is_dir()


def test_jobs_at_in_and_beside_a_folder_are_listed(tmp_path, monkeypatch):
    beside = tmp_path / "data" / ".roboreel-jobs" / "one"
    create_job(beside, squares(3))
    create_job(tmp_path / "other" / "two", squares(4))
    (tmp_path / "data" / "arm").mkdir()
    monkeypatch.chdir(tmp_path)
    for place in ("data", "data/arm", "data/arm/", "data/.roboreel-jobs", str(beside)):
        assert listed(place) == [str(beside)], place
    assert listed("other") == [str(tmp_path / "other" / "two")]


def test_a_folder_that_is_not_there_is_an_error():
    assert roboreel_("job", "list", "nowhere").code == 2
    assert roboreel_("job", "list", ".", "--home", ".").code == 2


def test_what_may_not_be_looked_at_is_passed_over(tmp_path, home, monkeypatch):
    good = create_job(home / "good", squares(3)).path
    create_job(tmp_path / "away" / "job", squares(3))
    (home / "locked").mkdir()
    exists = Path.exists

    def refused(path, **options):
        if "locked" in path.parts or "away" in path.parts:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path, **options)

    monkeypatch.setattr(Path, "exists", refused)
    assert listed() == [str(good)]


def test_a_job_of_another_version_is_named(tmp_path, capsys):
    path = create_job(tmp_path / "home" / "old", squares(3)).path
    described = json.loads((path / "job.json").read_text())
    (path / "job.json").write_text(json.dumps({**described, "layout": 0}))
    assert list_jobs() == []
    said = roboreel_("job", "list")
    assert said.code == 0
    assert "Problem: Another version of roboreel made this job (layout 0)" in said.err


def put_count_beyond_all(path):
    (path / "failed").mkdir()
    (path / "failed" / "ab.json").write_text('{"task": 1e999, "error": "x", "attempts": 1}')


def put_name_of_no_text(path):
    (path / "parts").mkdir()
    (path / "parts" / os.fsdecode(b"x")).mkdir()
    (path / "parts" / "x" / os.fsdecode(b"\xff\xfe")).mkdir()


def put_file_for_folder(path):
    (path / "parts").mkdir()
    (path / "parts" / "ab").write_text("x")
    (path / "failed").write_text("x")


@pytest.mark.parametrize("put", [put_count_beyond_all, put_name_of_no_text, put_file_for_folder])
def test_what_a_stranger_puts_into_a_job_hides_no_job_from_the_list(put, home):
    create_job(home / "good", squares(3))
    create_job(home / "odd", squares(3))
    for name in ("parts", "failed"):
        shutil.rmtree(home / "odd" / name, ignore_errors=True)
    put(home / "odd")
    assert listed() == [str(home / "good"), str(home / "odd")]
    assert roboreel_("job", "status", str(home / "odd")).code == 0
