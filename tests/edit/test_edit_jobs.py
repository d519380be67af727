"""Edits as jobs: the same bytes wherever their tasks run, and as without a job."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.commit import list_changes, undo_change
from roboreel.edit import edit_dataset, plan_conversion, plan_merge
from roboreel.edit.edit_job import plan_edit_job
from roboreel.edit.portable import context_from_plain, context_to_plain
from roboreel.edit.verifying import verify_copy
from roboreel.errors import DatasetInUseError, FolderTakenError, JobError, StaleDatasetError
from roboreel.jobs import InProcess, Processes, create_job, list_jobs, open_job, run_job
from roboreel.video.encoding import Encoding
from tests.clean import FRONT, LENGTHS, WRIST, clean_dataset
from tests.commit.test_undo import tree_hash
from tests.edit.edited import Expected, check_edited
from tests.jobs.test_jobs import home, tree  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from roboreel.edit import EditPlan

WHOLE = [Expected(e, 0, n) for e, n in enumerate(LENGTHS)]
H264 = Encoding("h264", keyframe_distance=5)


def sources(folder: Path) -> dict[str, Path]:
    """Return datasets of every version."""
    return {
        version: clean_dataset(folder / version, version) for version in ("v2.0", "v2.1", "v3.0")
    }


def reencode(old: dict[str, Path], out: Path) -> EditPlan:
    return edit_dataset(old["v3.0"]).reencode(FRONT, H264).plan(out)


EDITS: dict[str, Callable[[dict[str, Path], Path], EditPlan]] = {
    "convert v2.1 to v3.0": lambda old, out: plan_conversion(old["v2.1"], "v3.0", out),
    "convert v3.0 to v2.1": lambda old, out: plan_conversion(old["v3.0"], "v2.1", out),
    "convert v2.0 to v3.0": lambda old, out: plan_conversion(old["v2.0"], "v3.0", out),
    "merge": lambda old, out: plan_merge([old["v3.0"], old["v2.1"]], out),
    "merge with links": lambda old, out: plan_merge([old["v3.0"]] * 2, out, link=True),
    "reencode": reencode,
    "resize": lambda old, out: edit_dataset(old["v3.0"]).resize(WRIST, 24, 32).plan(out),
    "resample": lambda old, out: edit_dataset(old["v2.1"]).resample(15).plan(out),
    "trim, tasks, columns": lambda old, out: (
        edit_dataset(old["v3.0"])
        .trim(2, start=3, stop=15)
        .set_task([1], "pour")
        .replace_task("open the drawer", "close the drawer")
        .set([0], {"success": True})
        .rename("action", "act")
        .remove("observation.pose")
        .plan(out)
    ),
}


def published(job: Any, out: Path) -> tuple[Any, ...]:
    """Commit a job, and return its parts, its result and what it published, which is removed."""
    parts, result = tree(job.path / "parts"), job.commit()
    files = tree(out)
    shutil.rmtree(out)
    return parts, json.dumps(result), files


def in_shards(job: Any) -> None:
    for shard in range(5):
        run_job(open_job(job.path), InProcess(), shard=(shard, 5))


def published_everywhere(plan, tmp_path, out):
    """Run a plan here, in two processes and in five shards; return what all of them publish."""
    seen = []
    for number, run in enumerate(
        (lambda job: run_job(job, InProcess()), lambda job: run_job(job, Processes(2)), in_shards)
    ):
        job = create_job(tmp_path / f"job{number}", plan)
        run(job)
        seen.append(published(job, out))
        assert not job.path.exists()
    assert seen[0] == seen[1] == seen[2]
    return seen[0]


@pytest.mark.long
@pytest.mark.parametrize("name", EDITS)
def test_processes_and_five_shards_leave_the_bytes_of_this_process(name, tmp_path):
    out = tmp_path / "out"
    plan = EDITS[name](sources(tmp_path), out)
    plan.apply()
    at_once = tree(out)
    shutil.rmtree(out)
    planned = plan_edit_job(plan, verify=True, task_s=1e-4)
    assert len(planned) > 1
    assert published_everywhere(planned, tmp_path, out)[2] == at_once


def test_a_video_that_is_encoded_in_parts_is_the_same_with_and_without_a_job(tmp_path, monkeypatch):
    # About 20 frames of this camera take as long as a task should.
    monkeypatch.setattr("roboreel.edit.work._ENCODED_PIXELS_PER_S", 48 * 64 * 2)
    root, out = clean_dataset(tmp_path / "arm", episodes_per_file=6), tmp_path / "out"
    plan = edit_dataset(root).reencode(FRONT, H264).plan(out)
    planned = plan_edit_job(plan, task_s=1e-4)
    assert sum(target.how == "re-encoded" for target in plan.files) == 1
    assert len(planned) > 4
    plan._apply_at_once(lambda *_: None)
    at_once = tree(out)
    shutil.rmtree(out)
    job = create_job(tmp_path / "job", planned)
    in_shards(job)
    assert published(job, out)[2] == at_once
    plan._apply_at_once(lambda *_: None)
    check_edited(root, out, WHOLE, names={FRONT: None}, added=[FRONT], packets=False)
    whole = np.arange(sum(LENGTHS))
    old, new = (reel.open_dataset(one).read(whole, [FRONT])[FRONT] for one in (root, out))
    assert np.abs(old.astype(int) - new).mean() < 4


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_in_place_a_job_does_what_the_edit_does_and_is_undone(version, tmp_path):
    one, two = (clean_dataset(tmp_path / name, version) for name in ("one", "two"))
    before = tree_hash(one)
    edits = [edit_dataset(root).delete([1]).reencode(FRONT, H264) for root in (one, two)]
    edits[0].apply()
    edits[1].apply(on=InProcess(), job=tmp_path / "job")
    assert tree_hash(one) == tree_hash(two) != before
    assert [change.summary for change in list_changes(two)] == [
        change.summary for change in list_changes(one)
    ]
    undo_change(two)
    assert tree_hash(two) == before
    assert not (tmp_path / "job").exists()


def test_an_edit_as_plain_values_is_the_same_edit(tmp_path):
    old = sources(tmp_path)
    for make in EDITS.values():
        context = make(old, tmp_path / "out").context
        again = context_from_plain(json.loads(json.dumps(context_to_plain(context))))
        assert again.recipe == context.recipe
        assert again.layout.data == context.layout.data
        assert again.layout.videos == context.layout.videos
        assert again.layout.cameras == context.layout.cameras
        for kind, files in context.layout.kinds.items():
            assert again.layout.kinds[kind].files == files.files
            assert again.layout.kinds[kind].file.tolist() == files.file.tolist()
        assert again.layout.start.tolist() == context.layout.start.tolist()
        assert again.features == context.features


class TestCommit:
    def planned(self, tmp_path, *, in_place=False):
        root = clean_dataset(tmp_path / "arm")
        edit = edit_dataset(root).delete([0]).reencode(WRIST, H264)
        plan = edit.plan(None if in_place else tmp_path / "out")
        job = create_job(tmp_path / "job", plan_edit_job(plan, task_s=1e-4))
        run_job(job, InProcess())
        return root, job

    @pytest.mark.parametrize("in_place", [False, True])
    def test_after_a_crash_it_ends_the_same_way(self, in_place, tmp_path):
        root, job = self.planned(tmp_path, in_place=in_place)
        parts = list(job._parts())
        first = job.operation.commit(job.plan, iter(parts))
        place = root if in_place else tmp_path / "out"
        before = tree_hash(place)
        for path in place.rglob("*"):  # Times of files are not what it goes by.
            os.utime(path, (1, 1))
        assert job.commit() == first == {"path": str(place), "episodes": 5, "frames": 77}
        assert tree_hash(place) == before
        assert len(list_changes(root)) == in_place

    def test_a_source_that_has_changed_is_refused(self, tmp_path):
        root, job = self.planned(tmp_path)
        edit_dataset(root).set([0], {"success": True}).apply()
        with pytest.raises(StaleDatasetError, match="changed since the job was made"):
            open_job(job.path).commit()
        assert not (tmp_path / "out").exists()

    def test_a_folder_that_was_taken_meanwhile_is_refused(self, tmp_path):
        _, job = self.planned(tmp_path)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "notes.txt").write_text("mine")
        with pytest.raises(FolderTakenError):
            job.commit()
        (tmp_path / "out" / "notes.txt").unlink()
        assert job.commit()["episodes"] == 5

    def test_a_recorder_that_is_open_is_found_before_the_work_begins(self, tmp_path):
        root = clean_dataset(tmp_path / "arm")
        with reel.resume_dataset(root), pytest.raises(DatasetInUseError):
            edit_dataset(root).reencode(FRONT, H264).apply(on=InProcess(), job=tmp_path / "job")
        assert not (tmp_path / "job").exists()


def test_a_damaged_video_fails_its_task_and_the_rest_is_kept(tmp_path):
    root = clean_dataset(tmp_path / "arm")
    plan = edit_dataset(root).reencode(FRONT, H264).plan(tmp_path / "out")
    video = min((root / "videos" / FRONT).rglob("*.mp4"))
    whole = video.read_bytes()
    job = create_job(tmp_path / "job", plan_edit_job(plan, task_s=1e-4))
    stamp = video.stat()
    video.write_bytes(whole[: len(whole) // 2])
    report = run_job(job, InProcess(), retries=0)
    assert len(report.failed) == 1
    with pytest.raises(JobError, match="1 of them failed"):
        job.commit()
    assert not (tmp_path / "out").exists()
    video.write_bytes(whole)
    import os

    os.utime(video, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    report = run_job(job, InProcess())
    assert (report.ran, report.failed) == (1, ())
    assert job.commit()["episodes"] == len(LENGTHS)


def test_what_takes_long_is_a_job_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("roboreel.edit.work._COPIED_BYTES_PER_S", 1e3)
    seen = []
    plan = plan_merge([clean_dataset(tmp_path / "arm")] * 2, tmp_path / "out")
    plan.apply(on_progress=lambda what, done, total: seen.append((what, done, total)))
    assert seen[-1][0] == "Tasks"
    assert seen[-1][1] == seen[-1][2] > 1
    assert list_jobs() == []
    verify_copy(plan)
    check_edited(tmp_path / "arm", tmp_path / "out", WHOLE)
