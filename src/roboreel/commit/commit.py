"""Several files of a dataset change as one: entirely, or not at all."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from roboreel.errors import CorruptFileError, DatasetInUseError
from roboreel.files import sync_directory, sync_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "WORKSHOP",
    "Commit",
    "drop_commit",
    "finish_commit",
    "has_commit",
    "lock_dataset",
    "locked",
]

WORKSHOP = ".recording"
"""The folder of a dataset where recorders work; no reader looks inside."""

_STAGED, _DECIDED, _STEPS = "staged", "commit", "steps.json"
_FOLDERS = ("data", "videos", "meta")


class Commit:
    """Files that are to appear in a dataset, or to leave it, in the order given.

    The files are prepared aside. `run` waits until they are on the disk, decides by renaming the
    folder they are in, and then moves them one by one. A process that dies before the decision has
    changed nothing; what one that dies after it left undone, `finish_commit` does. The order is to
    be chosen so that every reader finds a whole dataset between any two steps.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / WORKSHOP / _STAGED
        # What an earlier process prepared and did not decide can be made again.
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._steps: list[tuple[str | None, str]] = []

    def add(self, target: str) -> Path:
        """Return where to write the file that is to appear at a path below the dataset's folder."""
        # The ending stays, since writers choose a container format by it.
        name = f"{len(self._steps):05d}{PurePosixPath(target).suffix}"
        self._steps.append((name, target))
        return self._folder / name

    def remove(self, target: str) -> None:
        """Have a file leave the dataset."""
        self._steps.append((None, target))

    def run(self) -> None:
        """Make it happen; when this returns, it is on the disk."""
        steps = self._folder / _STEPS
        steps.write_text(json.dumps(self._steps), encoding="utf-8")
        names = [name for name, _ in self._steps if name is not None]
        paths = [steps, *(self._folder / name for name in names), self._folder]
        _in_parallel(_sync, paths)
        decided = self._folder.with_name(_DECIDED)
        self._folder.rename(decided)
        sync_directory(decided.parent)
        finish_commit(self._root)


def finish_commit(root: Path) -> bool:
    """Carry out what was decided and not done; return whether there was such a thing.

    Raises:
        CorruptFileError: The list of steps cannot be understood.
    """
    folder = root / WORKSHOP / _DECIDED
    if not folder.is_dir():
        return False
    steps = folder / _STEPS
    if steps.exists():
        _carry_out(root, folder, _read_steps(steps))
        # First of all: without it there is nothing to do again.
        steps.unlink()
    shutil.rmtree(folder)
    return True


def drop_commit(root: Path) -> None:
    """Forget what was decided, where there is no dataset that it could belong to."""
    shutil.rmtree(root / WORKSHOP / _DECIDED, ignore_errors=True)


def has_commit(root: Path) -> bool:
    """Whether something was decided and not finished."""
    return (root / WORKSHOP / _DECIDED / _STEPS).exists()


def _carry_out(root: Path, folder: Path, steps: Iterable[tuple[str | None, str]]) -> None:
    touched: set[Path] = set()
    removing = False
    for name, target in steps:
        path = root / target
        if target.startswith("meta/") or removing != (name is None):
            # Metadata speaks of files whose names must be on the disk before it is, and what it
            # no longer speaks of leaves only when that is on the disk.
            _in_parallel(sync_directory, touched)
            touched.clear()
        removing = name is None
        if name is None:
            path.unlink(missing_ok=True)
        elif (folder / name).exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            (folder / name).replace(path)
        touched.add(path.parent)
    _in_parallel(sync_directory, [parent for parent in touched if parent.exists()])


def _read_steps(path: Path) -> list[tuple[str | None, str]]:
    try:
        steps = [(name, target) for name, target in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise CorruptFileError(f"Not a list of steps: {str(path)!r}.") from error
    for name, target in steps:
        # A dataset may come from anywhere: nothing in it may reach beyond its folder.
        parts = PurePosixPath(str(target)).parts
        inside = (
            parts[:1] and parts[0] in _FOLDERS and ".." not in parts and "\\" not in str(target)
        )
        if not inside or (name is not None and Path(str(name)).name != name):
            raise CorruptFileError(
                f"A step leads out of the dataset, to {target!r}: {str(path)!r}."
            )
    return steps


def _sync(path: Path) -> None:
    if path.is_dir():
        sync_directory(path)
    else:
        sync_file(path)


def _in_parallel(work: Callable[[Path], None], paths: Iterable[Path]) -> None:
    """Do the same to all paths at once: a disk syncs many files in little more time than one."""
    several = list(paths)
    if len(several) < 2:
        for path in several:
            work(path)
        return
    with ThreadPoolExecutor(min(8, len(several))) as pool:
        list(pool.map(work, several))


def lock_dataset(root: Path) -> FileLock:
    """Return the lock of the one process that may change a dataset, taken.

    Raises:
        DatasetInUseError: Another process, or another recorder of this one, has it.
    """
    (root / WORKSHOP).mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / WORKSHOP / "lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise DatasetInUseError(
            "Somebody else records into this dataset, recovers it or compacts it: close that "
            f"recorder first, or wait for it, {str(root)!r}."
        ) from None
    return lock


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock of a dataset."""
    lock = lock_dataset(root)
    try:
        yield
    finally:
        lock.release()
