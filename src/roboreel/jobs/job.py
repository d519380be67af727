"""A job on disk: made once, run by any number of processes, committed once."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from roboreel.errors import DatasetError, JobError
from roboreel.files import (
    make_folder,
    remove_leftovers,
    remove_tree,
    sync_directory,
    write_atomically,
)
from roboreel.io.reading import read_file
from roboreel.jobs.folder import Failure, JobFolder, read_note
from roboreel.jobs.operation import Operation, Part, load_operation
from roboreel.jobs.places import forget_place, note_place
from roboreel.jobs.plan import Plan

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

_JOB_FILE, _PLAN_FILE = "job.json", "plan.npz"
_COMMITTED, _LOCK_FILE, _ARRAY_FILE = "committed.json", "commit.lock", "array.sh"
_FOLDERS = ("staging", "parts", "failed")
_FILES = (_ARRAY_FILE, _PLAN_FILE, _JOB_FILE, _LOCK_FILE, _COMMITTED)
_OURS = {*_FOLDERS, *_FILES}
_LAYOUT = 1
_MOST_PLAN_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Status:
    """How far a job is."""

    total: int
    done: int
    failed: tuple[Failure, ...]
    """Tasks that failed and are not done."""
    share: float
    """The part of the whole cost that is done, 0 to 1."""
    remaining_s: float
    """About how many seconds of one core the other tasks take."""

    @property
    def is_complete(self) -> bool:
        """Whether all tasks are done, so that the job can be committed."""
        return self.done == self.total


class Job:
    """A job in its folder. Any number of processes and machines may run its tasks at once."""

    def __init__(self, path: Path, plan: Plan, name: str) -> None:
        self.path = path
        self.plan = plan
        self.name = name
        self.folder = JobFolder(path)

    @cached_property
    def operation(self) -> Operation:
        """What is done with the tasks."""
        return load_operation(self.plan.operation)

    def exists(self) -> bool:
        """Whether the job's folder is still there; a commit removes it."""
        return is_job(self.path)

    def check_exists(self) -> None:
        """Check that the job is still there.

        Raises:
            JobError: Another process has committed or removed it.
        """
        if not self.exists():
            raise JobError(
                "Another process has committed this job, which is then done, or removed it: "
                f"{str(self.path)!r}."
            )

    def done(self) -> NDArray[np.bool_]:
        """Return which tasks are done, ``(T,)``."""
        return self.folder.done(self.plan.ids)

    def status(self) -> Status:
        """Return how far the job is."""
        done, cost = self.done(), self.plan.cost
        remaining = float(cost[~done].sum())
        share = 1.0 - remaining / self.plan.total_cost if self.plan.total_cost else 1.0
        return Status(
            len(self.plan), int(done.sum()), tuple(self.folder.failures()), share, remaining
        )

    def verify(self) -> list[int]:
        """Read every byte of the finished parts, and drop those that are damaged.

        Returns:
            The numbers of the tasks that are to be done again.
        """
        damaged = []
        for number in self.done().nonzero()[0].tolist():
            task_id = self.plan.ids[number].decode()
            if self.folder.damage(task_id, hashes=True) is not None:
                self.folder.drop(task_id)
                damaged.append(number)
        return damaged

    def commit(self) -> Any:  # noqa: ANN401  # whatever the operation makes
        """Join the parts and publish the result; then remove the job's folder.

        After a crash, it goes on where it was.

        Returns:
            The operation's result, plain values.

        Raises:
            JobError: Tasks are missing or damaged, or another process commits.
        """
        if not is_committed(self.path):
            self.check_exists()  # Taking the lock would make the folder again.
        lock = FileLock(self.path / _LOCK_FILE, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise JobError(f"Another process is committing this job: {str(self.path)!r}.") from None
        with lock:
            if not is_committed(self.path):
                self._check_complete()
                result = self.operation.commit(self.plan, self._parts())
                stored = json.dumps({"key": self.plan.key, "result": result})
                write_atomically(self.path / _COMMITTED, stored)
        return finish_commit(self.path)

    def _check_complete(self) -> None:
        missing = (~self.done()).nonzero()[0]
        if len(missing):
            failed = len(self.folder.failures())
            why = f"; {failed:,} of them failed" if failed else ""
            raise JobError(
                f"{len(missing):,} of {len(self.plan):,} tasks are not done{why}. Run `roboreel job "
                f"resume`, then commit: {str(self.path)!r}."
            )

    def _parts(self) -> Iterator[Part]:
        for number in range(len(self.plan)):
            task = self.plan.task(number)
            part, done = self.folder.part(task.id), self.folder.read_done(task.id)
            for name in done[
                "files"
            ]:  # One that is gone was moved by a commit that was interrupted.
                if (part / name).exists() and not (part / name).is_file():
                    raise JobError(f"A part is not a regular file: {str(part / name)!r}.")
            yield Part(task, part, done["summary"])


def create_job(path: str | os.PathLike[str], plan: Plan, *, name: str = "job") -> Job:
    """Make the folder of a job, or open it if it is there.

    Args:
        path: The folder: new, empty, or of the same plan.
        plan: The tasks.
        name: What the job is, for people.

    Raises:
        JobError: The folder holds another job, or other files.
    """
    root = Path(path).expanduser().absolute()
    if (root / _JOB_FILE).exists():
        job = open_job(root)
        if job.plan.key != plan.key:
            raise JobError(
                f"The folder holds another job, {job.name!r}. Finish it, remove it, or choose "
                f"another folder: {str(root)!r}."
            )
        return job
    if root.exists():
        remove_leftovers(root)
        there = {entry.name for entry in root.iterdir()}
        if not there <= _OURS:
            raise JobError(f"A job needs a folder of its own: there are files in {str(root)!r}.")
        if there - {_PLAN_FILE}:
            _remove_rest(root)
    make_folder(root)
    write_atomically(root / _PLAN_FILE, plan.to_bytes())
    described = {
        "layout": _LAYOUT,
        "name": name,
        "operation": plan.operation,
        "options": plan.options,
        "key": plan.key,
    }
    note_place(root)
    write_atomically(root / _JOB_FILE, json.dumps(described, indent=1))
    return Job(root, plan, name)


def _remove_rest(root: Path) -> None:
    """Remove what is left of a job that was being removed: its parts may be damaged."""
    remove_job(root)
    if (root / "parts").exists():
        raise JobError(
            "An earlier job was committed, but not all of its files could be removed. Remove the "
            f"folder: {str(root)!r}."
        )


def is_job(path: Path) -> bool:
    """Return whether a folder is that of a job, whether or not it can be read."""
    return (path / _JOB_FILE).exists()


def open_job(path: str | os.PathLike[str]) -> Job:
    """Open the folder of a job.

    Raises:
        JobError: There is no job, or its files cannot be read.
    """
    root = Path(path).expanduser().absolute()
    if not is_job(root):
        raise JobError(f"There is no job at {str(root)!r}.")
    try:
        raw = read_note(root / _JOB_FILE)
        data = read_file(root / _PLAN_FILE, "plan of the job", most_bytes=_MOST_PLAN_BYTES)
        if raw["layout"] != _LAYOUT:
            raise JobError(
                f"Another version of roboreel made this job (layout {raw['layout']}): {str(root)!r}."
            )
        plan = Plan.from_bytes(data, raw["operation"], raw["options"])
        if plan.key != raw["key"]:
            raise ValueError("the tasks are those of another job")
        return Job(root, plan, str(raw["name"]))
    except JobError:
        raise
    except (DatasetError, ValueError, KeyError, TypeError) as error:
        raise JobError(f"The job cannot be read ({error!r}): {str(root)!r}.") from error


def is_committed(path: Path, key: str | None = None) -> bool:
    """Return whether a job is committed, and only its folder is still there.

    Args:
        path: The job's folder.
        key: Only if it is the job of the plan with this key.
    """
    try:
        found = read_note(path / _COMMITTED)
    except JobError:
        return False
    is_result = isinstance(found, dict) and "result" in found
    return is_result and (key is None or found.get("key") == key)


def finish_commit(path: Path) -> Any:  # noqa: ANN401  # whatever the operation makes
    """Return the result of a committed job, and remove its folder."""
    result = read_note(path / _COMMITTED)["result"]
    remove_job(path)
    return result


def commit_job(path: str | os.PathLike[str]) -> Any:  # noqa: ANN401  # whatever the operation makes
    """Commit the job in a folder, from whatever point an earlier commit had reached.

    Raises:
        JobError: There is no job, tasks are missing, or another process commits.
    """
    root = Path(path).expanduser().absolute()
    return finish_commit(root) if is_committed(root) else open_job(root).commit()


def remove_job(path: Path) -> None:
    """Remove the folder of a job, whatever state it is in. The result, if any, goes last."""
    for name in _FOLDERS:
        remove_tree(path / name, ignore_errors=True)
    for name in _FILES:
        (path / name).unlink(missing_ok=True)
    remove_leftovers(path)
    with suppress(OSError):  # What others put there stays, and so does the folder.
        path.rmdir()
        forget_place(path)
        sync_directory(path.parent)
