"""Edits as jobs: the dataset is the old one or the new one, and the job goes on, wherever a run was stopped."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import roboreel as reel
from roboreel.commit import STORE, WORKSHOP, Workshop, finish_commit, list_changes
from roboreel.edit import plan_conversion
from roboreel.edit.edit_job import plan_edit_job
from roboreel.errors import JobError
from roboreel.jobs import InProcess, commit_job, execute, open_job, run_job
from roboreel.jobs.job import is_committed
from tests.faults.between import check_between, check_either
from tests.faults.recording import record_apart
from tests.faults.scenario import Remains, Scenario, check_no_litter
from tests.recordings import CAMERAS
from tests.same_dataset import differing_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from roboreel.edit import EditPlan
    from tests.faults.scenario import Say

    Make = Callable[[Path], EditPlan]

__all__ = ["SCENARIOS"]


def converted(folder: Path) -> EditPlan:
    return plan_conversion(folder / "dataset", "v2.1", folder / "out")


def encoded(folder: Path) -> EditPlan:
    edit = reel.edit_dataset(folder / "dataset").delete([1])
    return edit.reencode(CAMERAS[0], reel.Encoding("h264", keyframe_distance=1)).plan()


def prepare(folder: Path, make: Make) -> None:
    """Make a dataset, and one beside it as it is afterwards, without a job."""
    record_apart(folder, "video")
    shutil.copytree(folder / "dataset", folder / "old")
    make(folder)._apply_at_once(lambda *_: None)
    out = folder / "out" if (folder / "out").exists() else folder / "dataset"
    out.rename(folder / "new")
    if not (folder / "dataset").exists():
        shutil.copytree(folder / "old", folder / "dataset")
    for name in (STORE, WORKSHOP):
        shutil.rmtree(folder / "new" / name, ignore_errors=True)


def work(folder: Path, say: Say, make: Make) -> None:
    planned = plan_edit_job(make(folder), verify=True, task_s=1e-4)
    execute(planned, on=InProcess(), folder=folder / "job", retries=0)
    say("done")


def go_on(folder: Path, make: Make) -> None:
    """Do what a person would: finish the job that is there, or start one."""
    place = folder / "job"
    if not is_committed(place) and (place / "job.json").exists():
        run_job(open_job(place), InProcess())
    try:
        commit_job(place)
    except JobError:
        work(folder, lambda _: None, make)


def verify(remains: Remains, make: Make, result: str) -> None:
    folder, root, job = remains.folder, remains.folder / result, remains.folder / "job"
    if result == "dataset":
        check_between(remains)
        finish_commit(Workshop(root))
        remains.once(check_either, root, folder / "old", folder / "new")
    elif root.exists():
        remains.once(check_either, root, folder / "new")
    is_new = root.exists() and differing_files(root, folder / "new") == []
    assert is_new or not root.exists() or differing_files(root, folder / "old") == []
    assert is_new or "done" not in remains.said
    if is_new and not is_committed(job) and not (job / "job.json").exists():
        # What could not be removed of a job that is done harms nobody.
        shutil.rmtree(job, ignore_errors=True)
    if not is_new or job.exists():
        go_on(folder, make)
    assert differing_files(root, folder / "new") == []
    dataset = reel.open_dataset(root)
    dataset.read(np.arange(len(dataset)))
    assert len(list_changes(folder / "dataset")) == (result == "dataset")
    assert not job.exists()
    check_no_litter(folder)


def _scenario(name: str, make: Make, result: str) -> Scenario:
    return Scenario(
        f"job of {name}",
        partial(work, make=make),
        partial(verify, make=make, result=result),
        partial(prepare, make=make),
        moves=False,
    )


SCENARIOS = [
    _scenario("convert", converted, "out"),
    _scenario("reencode", encoded, "dataset"),
]
