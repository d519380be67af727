"""Jobs: a plan of tasks is done once, whoever runs it and whatever dies."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from roboreel.cli import carrying_out
from roboreel.cli.carrying_out import Where
from roboreel.errors import JobError
from roboreel.jobs import (
    InProcess,
    Operation,
    Plan,
    Processes,
    commit_job,
    create_job,
    cut,
    execute,
    list_jobs,
    open_job,
    run_job,
)
from roboreel.jobs.operation import load_operation
from roboreel.jobs.running import run_task
from tests.jobs.job_operations import squares

if TYPE_CHECKING:
    from pathlib import Path
from typing import Any


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ROBOREEL_JOBS", str(tmp_path / "jobs"))
    return tmp_path / "jobs"


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def put_nesting(path: Path) -> None:
    path.write_text("[" * 100_000)


def put_pipe(path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs FIFOs")
    os.mkfifo(path)


def put_many_rows(path: Path) -> None:
    """A column that says it has a million million rows."""
    header, archive = io.BytesIO(), io.BytesIO()
    said = {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
    np.lib.format.write_array_header_1_0(header, said)
    with zipfile.ZipFile(archive, "w") as columns:
        columns.writestr("cost.npy", header.getvalue())
    path.write_bytes(archive.getvalue())


def put_packed_rows(path: Path) -> None:
    """Columns of many rows in a small file, whose ids are those that job.json names."""
    rows, options = 1_000_000, {"seed": 0}
    cost, numbers = np.zeros(rows), np.zeros(rows, np.int64)
    columns: dict[str, Any] = {"cost": cost, "input.n": numbers}
    np.savez_compressed(path, **columns)
    if path.name == "plan.npz":
        assert path.stat().st_size < 100_000
        key = Plan("a:B", options, {"n": numbers}, cost).key
        said = {"layout": 1, "name": "x", "operation": "a:B", "options": options, "key": key}
        path.with_name("job.json").write_text(json.dumps(said))
    else:
        path.with_name(f"{path.name}.npz").rename(path)


class TestPlans:
    def test_ids_are_hashes_of_operation_options_and_inputs(self):
        ids = squares(3).ids.tolist()
        assert len(set(ids)) == 3
        assert ids == squares(3).ids.tolist()
        assert set(ids).isdisjoint(squares(3, seed=1).ids.tolist())
        assert squares(4).task(2).id == ids[2].decode()

    def test_columns_hold_whole_numbers_or_texts(self):
        plan = Plan("a:B", {}, {"file": np.array(["x", "yy"]), "n": np.array([1, 2])}, np.ones(2))
        assert plan.task(1).inputs == {"file": "yy", "n": 2}
        assert Plan.from_bytes(plan.to_bytes(), "a:B", {}).key == plan.key
        with pytest.raises(ValueError, match="whole numbers or texts"):
            Plan("a:B", {}, {"x": np.array([0.5])}, np.ones(1))
        with pytest.raises(ValueError, match="as long as its cost"):
            Plan("a:B", {}, {"x": np.array([1, 2])}, np.ones(1))

    def test_options_are_plain_values(self):
        with pytest.raises(TypeError, match="plain values"):
            Plan("a:B", {"size": (1, 2)}, {}, np.ones(1))

    def test_a_task_that_is_not_there_says_so(self):
        with pytest.raises(IndexError, match="Task 7 does not exist: the plan has 7 tasks"):
            squares(7).task(7)

    def test_an_operation_is_named_by_module_and_constant(self):
        assert isinstance(load_operation("tests.jobs.job_operations:SQUARES"), Operation)
        for name in ("tests.jobs.job_operations:NOT_ONE", "tests.nowhere:X", "os:nothing", ""):
            with pytest.raises(JobError):
                load_operation(name)


def test_a_job_that_died_while_it_was_made_is_made_again(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / ".0123456789ab.tmp-plan.npz").write_bytes(b"half")
    assert execute(squares(3), on=InProcess(), folder=folder)["count"] == 3


def test_parts_of_a_job_that_was_being_removed_count_for_nothing(tmp_path):
    job = create_job(tmp_path / "job", squares(3))
    run_job(job, InProcess())
    (job.folder.part(job.plan.task(1).id) / "done.json").unlink()
    for name in ("job.json", "plan.npz"):
        (job.path / name).unlink()
    assert execute(squares(3), on=InProcess(), folder=job.path) == {"sum": 5, "count": 3}


class TestCutting:
    @given(
        costs=st.lists(st.integers(0, 8), max_size=40),
        sizes=st.lists(st.integers(1, 6), min_size=40, max_size=40),
        target=st.integers(1, 30),
    )
    def test_tasks_are_whole_files_or_parts_of_large_ones(self, costs, sizes, target):
        cost = np.array(costs, np.float64)
        group = np.repeat(np.arange(40), sizes)[: len(cost)]
        bounds = cut(cost, group, float(target))
        assert bounds[0] == 0
        assert bounds[-1] == len(cost)
        assert (np.diff(bounds) > 0).all()
        totals = {g: cost[group == g].sum() for g in np.unique(group).tolist()}
        largest = max([*costs, *(t for t in totals.values() if t <= target)], default=0)
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            assert cost[start:stop].sum() <= target + largest
            for edge in (start, stop):
                inside = 0 < edge < len(cost) and group[edge - 1] == group[edge]
                assert not inside or totals[group[edge]] > target

    def test_many_small_units_make_tasks_of_about_the_target(self):
        bounds = cut(np.full(1000, 1.0), np.arange(1000), 10.0)
        assert np.diff(bounds).tolist() == [10] * 100


class TestExecute:
    def test_a_small_plan_runs_at_once_and_leaves_nothing(self, home):
        assert execute(squares()) == {"sum": 91, "count": 7}
        assert not home.exists()

    def test_this_process_and_others_leave_the_same_bytes(self, tmp_path):
        written = []
        for name, on in (("here", InProcess()), ("there", Processes(2))):
            job = create_job(tmp_path / name, squares(out=str(tmp_path / "out")))
            assert run_job(job, on).ran == 7
            written.append(tree(job.path / "parts"))
            assert job.commit() == {"sum": 91, "count": 7}
            assert not job.path.exists()
        assert written[0] == written[1]

    def test_shards_share_the_tasks_and_one_commits(self, tmp_path):
        job = create_job(tmp_path / "job", squares())
        ran = [run_job(open_job(job.path), InProcess(), shard=(i, 5)).ran for i in range(5)]
        assert ran == [2, 2, 1, 1, 1]
        assert commit_job(job.path) == {"sum": 91, "count": 7}
        with pytest.raises(JobError, match="There is no job"):
            commit_job(job.path)

    def test_a_shard_that_does_not_exist_is_refused(self, tmp_path):
        job = create_job(tmp_path / "job", squares())
        with pytest.raises(ValueError, match="counted from 0/5 to 4/5"):
            run_job(job, InProcess(), shard=(5, 5))

    def test_an_incomplete_job_is_not_committed(self, tmp_path):
        job = create_job(tmp_path / "job", squares())
        run_job(job, InProcess(), shard=(0, 2))
        with pytest.raises(JobError, match="3 of 7 tasks are not done"):
            job.commit()
        assert job.status().done == 4

    def test_progress_counts_what_was_done_before(self, tmp_path):
        job = create_job(tmp_path / "job", squares())
        run_job(job, InProcess(), shard=(0, 2))
        seen = []
        run_job(job, InProcess(), on_progress=lambda p: seen.append((p.done, p.total)))
        assert seen == [(5, 7), (6, 7), (7, 7)]


class TestFailures:
    def test_a_failing_task_is_listed_and_the_rest_goes_on(self, tmp_path, home):
        log = tmp_path / "log"
        plan = squares(fails=[3], log=str(log))
        with pytest.raises(JobError, match=r"Task 3 of 7 failed 3 times: ValueError: 3 is unlucky"):
            execute(plan, on=InProcess())
        assert log.read_text().split().count("3") == 3
        job = list_jobs()[0]
        status = job.status()
        assert (status.done, status.total) == (6, 7)
        assert [(one.number, one.attempts) for one in status.failed] == [(3, 3)]
        assert "3 is unlucky" in status.failed[0].details
        with pytest.raises(JobError, match="1 of them failed"):
            job.commit()

    def test_what_failed_is_done_later_and_nothing_else_again(self, tmp_path):
        mark, log = tmp_path / "space", tmp_path / "log"
        plan = squares(fails_unless={"numbers": [2], "file": str(mark)}, log=str(log))
        with pytest.raises(JobError, match="No space left"):
            execute(plan, on=InProcess(), retries=0)
        mark.write_text("")
        assert execute(plan, on=InProcess()) == {"sum": 91, "count": 7}
        assert sorted(log.read_text().split()) == list("01223456")
        assert list_jobs() == []

    def test_a_process_that_dies_costs_only_its_task(self, tmp_path):
        dies = {"numbers": [1, 4], "folder": str(tmp_path)}
        job = create_job(tmp_path / "job", squares(dies_once=dies))
        report = run_job(job, Processes(2))
        assert (report.ran, report.failed) == (7, ())
        assert list((job.path / "staging").iterdir()) == []
        assert job.commit()["sum"] == 91

    def test_a_process_that_dies_too_often_is_named_by_its_signal(self, tmp_path):
        dies = {"numbers": [1], "folder": str(tmp_path)}
        job = create_job(tmp_path / "job", squares(3, dies_once=dies))
        report = run_job(job, Processes(1), retries=0)
        assert "ended by signal 9" in report.failed[0].error


def test_the_longest_tasks_are_begun_first(tmp_path):
    log = tmp_path / "log"
    job = create_job(tmp_path / "job", squares(4, cost_s=[1.0, 3.0, 2.0, 3.0], log=str(log)))
    run_job(job, InProcess())
    assert log.read_text().split() == ["1", "3", "2", "0"]
    assert job.commit() == {"sum": 14, "count": 4}


def test_a_straggler_keeps_nobody_else_from_working(tmp_path):
    log = tmp_path / "log"
    waits = {"numbers": [0], "others": 5}
    job = create_job(tmp_path / "job", squares(log=str(log), waits=waits))
    assert run_job(job, Processes(2)).failed == ()
    assert log.read_text().split().index("0") >= 5
    assert job.commit() == {"sum": 91, "count": 7}


class TestTwice:
    def test_the_second_to_finish_deletes_its_own(self, tmp_path):
        job = create_job(tmp_path / "job", squares(1))
        task_id = job.plan.task(0).id
        with job.folder.staging(task_id) as first, job.folder.staging(task_id) as second:
            for staged in (first, second):
                job.operation.run(job.plan.task(0), staged)
            assert not job.folder.publish(task_id, first, {"square": 0})
            before = tree(job.path / "parts")
            assert job.folder.publish(task_id, second, {"square": 0})
        assert tree(job.path / "parts") == before
        assert list((job.path / "staging").iterdir()) == []

    def test_two_runs_at_once_give_one_part_each(self, tmp_path):
        job = create_job(tmp_path / "job", squares(sleep_s=0.02))
        runs = [
            threading.Thread(target=run_job, args=(open_job(job.path), InProcess()))
            for _ in range(3)
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        assert job.commit() == {"sum": 91, "count": 7}

    def test_a_straggler_of_a_committed_job_brings_nothing_back(self, tmp_path):
        job = create_job(tmp_path / "job", squares())
        run_job(job, InProcess())
        other = open_job(job.path)
        job.commit()
        assert "Another process has committed" in str(run_task(other, 0).error)
        assert not job.path.exists()


class TestDamage:
    def test_verify_finds_other_bytes_and_they_are_made_again(self, tmp_path):
        job = create_job(tmp_path / "job", squares())
        run_job(job, InProcess())
        whole = tree(job.path / "parts")
        (job.folder.part(job.plan.task(3).id) / "square.txt").write_text("8\n")
        (job.folder.part(job.plan.task(5).id) / "square.txt").unlink()
        assert job.verify() == [3, 5]
        assert run_job(job, InProcess()).ran == 2
        assert tree(job.path / "parts") == whole

    def test_a_part_without_its_list_is_not_used(self, tmp_path):
        job = create_job(tmp_path / "job", squares(2))
        run_job(job, InProcess())
        task_id = job.plan.task(1).id
        (job.folder.part(task_id) / "done.json").unlink()
        with pytest.raises(JobError, match="no list of files"):
            job.commit()
        assert job.verify() == [1]
        run_job(job, InProcess())
        assert job.commit()["sum"] == 1

    def test_what_dead_processes_staged_is_removed_and_what_live_ones_stage_is_not(self, tmp_path):
        job = create_job(tmp_path / "job", squares(2))
        with job.folder.staging(job.plan.task(0).id) as mine:
            dead = mine.with_name(mine.name[:-8] + "00000000")
            dead.mkdir()
            (dead / "half").write_text("x")
            job.folder.remove_stale()
            assert mine.exists()
            assert not dead.exists()

    def test_parts_that_could_not_be_removed_are_not_those_of_the_next_job(self, tmp_path):
        job = create_job(tmp_path / "job", squares(2))
        run_job(job, InProcess())
        left = job.folder.part(job.plan.task(1).id)
        shutil.copytree(left, tmp_path / "left")
        assert job.commit()["sum"] == 1
        (tmp_path / "left" / "square.txt").unlink()
        shutil.copytree(tmp_path / "left", left)
        assert execute(squares(2), on=InProcess(), folder=job.path)["sum"] == 1

    def test_a_job_is_refused_where_parts_of_another_cannot_be_removed(self, tmp_path):
        (tmp_path / "parts").write_text("not a folder, so that it stays")
        with pytest.raises(JobError, match="Remove the folder"):
            create_job(tmp_path, squares(2))

    def test_folders_that_hold_something_else_are_refused(self, tmp_path):
        (tmp_path / "notes.txt").write_text("")
        with pytest.raises(JobError, match="folder of its own"):
            create_job(tmp_path, squares())
        create_job(tmp_path / "job", squares())
        with pytest.raises(JobError, match="holds another job"):
            create_job(tmp_path / "job", squares(8))
        (tmp_path / "job" / "plan.npz").write_bytes(b"PK nonsense")
        with pytest.raises(JobError, match="cannot be read"):
            open_job(tmp_path / "job")

    @pytest.mark.parametrize("name", ["job.json", "plan.npz"])
    @pytest.mark.parametrize("damage", [put_nesting, put_pipe, put_many_rows, put_packed_rows])
    def test_a_hostile_folder_is_an_error_and_is_not_listed(self, home, name, damage):
        create_job(home / "good", squares())
        create_job(home / "bad", squares())
        (home / "bad" / name).unlink()
        damage(home / "bad" / name)
        with pytest.raises(JobError, match="cannot be read"):
            open_job(home / "bad")
        assert [job.path.name for job in list_jobs()] == ["good"]

    def test_a_line_break_in_a_name_makes_no_line_of_the_array_script(self, tmp_path, capsys):
        with pytest.raises(typer.Exit):
            Where(job=tmp_path / "a job").write_array(
                squares(), "arm\ntouch /hit; x\u2028y", tmp_path
            )
        lines = (tmp_path / "a job" / "array.sh").read_text().splitlines()
        assert [line.split()[0] for line in lines] == ["#!/bin/sh", *["#SBATCH"] * 3, "exec"]
        said = capsys.readouterr().out.replace("\n", " ")
        wrapped = shlex.split(said[said.index("sbatch --dependency") :])[2:]
        assert wrapped[0] == "--wrap"
        assert shlex.split(wrapped[1])[-3:] == ["job", "commit", str(tmp_path / "a job")]

    def test_notes_of_failures_and_results_that_cannot_be_read_count_for_nothing(self, tmp_path):
        job = create_job(tmp_path / "job", squares())
        (job.path / "failed").mkdir()
        put_nesting(job.path / "failed" / "a.json")
        (job.path / "failed" / "b.json").write_text('{"task": "x", "error": 1, "attempts": []}')
        assert job.status().failed == ()
        (job.path / "committed.json").write_text("{}")
        with pytest.raises(JobError, match="tasks are not done"):
            commit_job(job.path)


DRIVER = """
from roboreel.jobs import Processes, execute
from tests.jobs.job_operations import squares
print(execute(squares(12, sleep_s=0.15, log={log!r}), on=Processes(2), folder={folder!r}))
"""


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_driver_that_ends_is_resumed_where_it_stopped(tmp_path, how):
    log, folder = tmp_path / "log", tmp_path / "job"
    code = DRIVER.format(log=str(log), folder=str(folder))
    command = [sys.executable, "-c", code]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not log.exists() or len(log.read_text().split()) < 4:
        assert driver.poll() is None
        time.sleep(0.01)
    driver.send_signal(getattr(signal, how))
    driver.wait()
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout == "{'sum': 506, 'count': 12}\n"
    # At most what ran when it ended ran twice.
    assert len(log.read_text().split()) <= 12 + 2
    assert not folder.exists()


def test_a_command_that_is_interrupted_says_that_it_goes_on(tmp_path, monkeypatch, capsys):
    def interrupted(plan, **options):
        create_job(options["folder"], plan, name=options["name"])
        raise KeyboardInterrupt

    monkeypatch.setattr(carrying_out, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Where(job=tmp_path / "job").carry_out(squares(3), "squares")
    assert "The same command goes on" in capsys.readouterr().err
