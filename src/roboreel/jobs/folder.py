"""The folder of a job, and what of it is done.

::

    stats-arm-0123456789ab/
    ├── job.json         operation and options; written last: without it there is no job
    ├── plan.npz         the tasks, as columns
    ├── staging/         what tasks write: one folder for each execution
    ├── parts/3f/3f…/    what a finished task wrote, and done.json with the hashes of its files
    ├── failed/3f….json  why a task failed, the last time
    └── committed.json   the result, while the rest is removed
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import DatasetError, JobError
from roboreel.files import (
    claimed,
    make_folder,
    remove_if_abandoned,
    remove_tree,
    sha256_of,
    sync_directory,
    sync_tree,
    walk,
    write_atomically,
)
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

DONE_FILE = "done.json"


def read_note(path: Path) -> Any:  # noqa: ANN401  # typed by the caller
    """Return what a JSON file of a job holds.

    Raises:
        JobError: It is not there, is no regular file, or is not JSON.
    """
    try:
        return json.loads(read_file(path, "file of the job"))
    except (DatasetError, ValueError, RecursionError) as error:
        raise JobError(f"A file of the job cannot be read ({error}): {str(path)!r}.") from error


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task failed."""

    number: int
    error: str
    attempts: int
    details: str = ""
    """The traceback."""


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Paths of a job's folder, and the protocol by which parts get there."""

    root: Path

    def part(self, task_id: str) -> Path:
        """Return where the part of a task is, once it is done."""
        return self.root / "parts" / task_id[:2] / task_id

    def is_done(self, task_id: str) -> bool:
        """Whether a task is done."""
        return (self.part(task_id) / DONE_FILE).exists()

    def done(self, ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        """Return which tasks are done, by the names of their parts, ``(T,)``."""
        names = [
            os.fsencode(entry.name)
            for shelf in _entries(self.root / "parts")
            for entry in _entries(Path(shelf.path))
        ]
        return np.isin(ids, np.array(names, ids.dtype)) if names else np.zeros(len(ids), bool)

    @contextmanager
    def staging(self, task_id: str) -> Iterator[Path]:
        """Yield an empty folder for one execution of a task; what is left of it is removed."""
        # The name says whose it is: only this machine can know whether that process lives.
        name = f"{task_id}-{_machine()}-{uuid.uuid4().hex[:8]}"
        folder = self.root / "staging" / name
        make_folder(folder.parent)
        with claimed(folder, folder=True):
            try:
                yield folder
            finally:
                remove_tree(folder, ignore_errors=True)

    def publish(self, task_id: str, staged: Path, summary: Mapping[str, Any]) -> bool:
        """Make a staged folder the part of a task; return whether another execution was first."""
        if not staged.is_dir():
            raise JobError(f"The job was committed or removed in the meantime: {str(self.root)!r}.")
        sync_tree(staged)
        done = {"task": task_id, "summary": summary, "files": _hashes(staged)}
        write_atomically(staged / DONE_FILE, json.dumps(done, indent=1, sort_keys=True))
        part = self.part(task_id)
        make_folder(part.parent)
        try:
            staged.rename(part)
        except OSError:
            # A folder is there. Whole, it is the same; without its list it is damaged.
            if self.is_done(task_id):
                return True
            if not part.exists():
                raise
            remove_tree(part)
            staged.rename(part)
        sync_directory(part.parent)
        return False

    def read_done(self, task_id: str) -> dict[str, Any]:
        """Return the summary and the files of a finished task.

        Raises:
            JobError: It is not done, or its list cannot be read.
        """
        path = self.part(task_id) / DONE_FILE
        try:
            done: dict[str, Any] = read_note(path)
            if done["task"] != task_id or not isinstance(done["files"], dict):
                raise ValueError("of another task")
        except (JobError, ValueError, KeyError, TypeError) as error:
            raise JobError(
                f"A finished task has no list of files ({error}): {str(path)!r}."
            ) from error
        return done

    def damage(self, task_id: str, *, hashes: bool = False) -> str | None:
        """Return what is wrong with the part of a finished task; None if nothing is.

        Args:
            task_id: The task.
            hashes: Whether to read every byte.
        """
        try:
            files = self.read_done(task_id)["files"]
        except JobError as error:
            return str(error)
        part = self.part(task_id)
        for name, (size_bytes, digest) in files.items():
            path = part / name
            if not path.is_file() or path.stat().st_size != size_bytes:
                return f"{name!r} is missing, or has another size than it was written with."
            if hashes and sha256_of(path) != digest:
                return f"{name!r} has other bytes than were written."
        return None

    def drop(self, task_id: str) -> None:
        """Remove the part of a task, so that it is done again."""
        remove_tree(self.part(task_id), ignore_errors=True)

    def fail(self, task_id: str, failure: Failure) -> None:
        """Write down why a task failed."""
        stored = {
            "task": failure.number,
            "error": failure.error,
            "attempts": failure.attempts,
            "details": failure.details,
        }
        write_atomically(self.root / "failed" / f"{task_id}.json", json.dumps(stored), sync=False)

    def forget_failure(self, task_id: str) -> None:
        """Take note that a task is done after all."""
        (self.root / "failed" / f"{task_id}.json").unlink(missing_ok=True)

    def failures(self) -> list[Failure]:
        """Return the tasks that failed and are not done, in the order of the plan."""
        found = []
        for entry in _entries(self.root / "failed"):
            task_id = entry.name.removesuffix(".json")
            if entry.name == task_id or self.is_done(task_id):
                continue
            with suppress(JobError, ValueError, KeyError, TypeError, OverflowError):
                raw = read_note(Path(entry.path))
                found.append(
                    Failure(
                        int(raw["task"]),
                        str(raw["error"]),
                        int(raw["attempts"]),
                        str(raw.get("details", "")),
                    )
                )
        return sorted(found, key=lambda failure: failure.number)

    def remove_stale(self) -> None:
        """Remove what dead processes of this machine left in the staging folder."""
        for entry in _entries(self.root / "staging"):
            if entry.name.split("-")[1:2] == [_machine()]:
                remove_if_abandoned(Path(entry.path))

    def remove_empty(self) -> None:
        """Remove the folders that a task has made in the place of a job that was gone by then."""
        parts, staging = self.root / "parts", self.root / "staging"
        for folder in (*parts.glob("*"), parts, staging, self.root):
            with suppress(OSError):
                folder.rmdir()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):  # It is none of ours.
        return []


def _machine() -> str:
    """Return an identifier of this machine since its start: names of machines may repeat."""
    started = ""
    with suppress(OSError):
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    return hashlib.sha256(f"{socket.gethostname()} {started}".encode()).hexdigest()[:8]


def _hashes(folder: Path) -> dict[str, tuple[int, str]]:
    """Return size and hash of each file, by its path below the folder."""
    paths = [path for path in walk(folder) if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_size, sha256_of(path))
        for path in paths
    }
