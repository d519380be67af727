"""A folder whose content is replaced in one step, while others read it.

::

    cache/train/
    ├── current          one line: the name of the current generation
    ├── write.lock       held by the writer
    └── generation-…/    meta.json and the files it names; never changed once it is current

A writer fills a new generation and then replaces ``current``, which is atomic. A reader holds the
generation it has opened; the next writer removes generations that nobody holds.
"""

from __future__ import annotations

import os
import re
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from filelock import FileLock

from roboreel.errors import CorruptFileError, MissingFileError
from roboreel.files import make_folder, remove_tree, sync_directory, write_atomically
from roboreel.io.reading import open_to_read, read_file

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

META_FILE = "meta.json"
SHARD_NAME = re.compile(r"shard-\d{5,10}\.arrow")
_CURRENT = "current"
_LOCK = "write.lock"
_GENERATION = re.compile(r"generation-[0-9a-f]{12}")
_LEFTOVER = re.compile(r"\.[0-9a-f]{12}\.tmp-.*")
T = TypeVar("T")


class Hold:
    """Keeps a generation from being removed until it is closed.

    On POSIX this is a shared lock on ``meta.json``; removing needs an exclusive one. Windows never
    removes an open file. A forked child shares the hold.
    """

    def __init__(self, generation: Path) -> None:
        self.generation = generation
        self._handle, _ = open_to_read(generation / META_FILE)
        try:
            self._lock()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        try:
            fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FileNotFoundError(f"Being removed: {str(self.generation)!r}") from error
        except OSError:
            return  # The file system has no locks: a reader must not outlive two writes.
        if os.fstat(self._handle).st_nlink == 0:
            raise FileNotFoundError(f"Removed: {str(self.generation)!r}")

    def close(self) -> None:
        """Release the generation; closing twice is harmless."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", -1) >= 0:
            self.close()


def current_generation(root: Path) -> Path | None:
    """Return the current generation; None if nothing has been published.

    Raises:
        CorruptFileError: ``current`` does not name a generation.
    """
    try:
        name = _patiently(partial(read_file, root / _CURRENT, most_bytes=4096)).decode().strip()
    except MissingFileError:
        return None
    except UnicodeDecodeError:
        name = "not text"
    if not _GENERATION.fullmatch(name):
        raise CorruptFileError(
            f"Not the name of a generation (generation-0123456789ab): {name[:60]!r}. "
            f"Write the shards again: {str(root / _CURRENT)!r}"
        )
    return root / name


def hold_generation(root: Path) -> Hold | None:
    """Hold the current generation; None if nothing has been published.

    Raises:
        MissingFileError: ``current`` names a generation that does not exist.
    """
    generation = current_generation(root)
    while generation is not None:
        with suppress(FileNotFoundError):
            return Hold(generation)
        # A writer may have replaced it since its name was read.
        latest = current_generation(root)
        if latest == generation:
            raise MissingFileError(
                f"{META_FILE} is missing. Write the shards again: {str(generation)!r}"
            )
        generation = latest
    return None


def is_part_of_store(path: str) -> bool:
    """Return whether a path, relative to the folder and with slashes, is one that writers make."""
    folder, _, name = path.rpartition("/")
    if not folder:
        known = name in (_CURRENT, _LOCK) or _GENERATION.fullmatch(name)
    else:
        known = _GENERATION.fullmatch(folder) and (name == META_FILE or SHARD_NAME.fullmatch(name))
    return bool(known or _LEFTOVER.fullmatch(name))


@contextmanager
def publishing(root: Path) -> Iterator[None]:
    """Wait for the folder's lock, take it, and remove what dead writers left.

    Raises:
        ValueError: The folder holds other files.
    """
    _refuse_strangers(root)
    make_folder(root)
    with FileLock(root / _LOCK):
        _sweep(root)
        try:
            yield
        finally:
            _sweep(root)


@contextmanager
def new_generation(root: Path, fingerprint: str | None = None) -> Iterator[Path]:
    """Yield a new, empty generation of a folder whose lock is held.

    It becomes current when the block succeeds. The block must sync its files to disk, ``meta.json``
    last.

    Args:
        root: The folder.
        fingerprint: Names the first generation of a folder, so that the same store has the same
            bytes wherever it is written. Later ones have names that were never used.
    """
    if fingerprint is None or (root / _CURRENT).exists():
        fingerprint = uuid.uuid4().hex
    generation = root / f"generation-{fingerprint[:12]}"
    generation.mkdir()
    yield generation
    sync_directory(root)
    _patiently(lambda: write_atomically(root / _CURRENT, generation.name + "\n"))


def _sweep(root: Path) -> None:
    """Remove unfinished files, and generations that are neither current nor held."""
    try:
        current = current_generation(root)
    except CorruptFileError:
        current = None
    for path in list(root.iterdir()):
        if _GENERATION.fullmatch(path.name) and path != current:
            if _withdraw(path):
                remove_tree(path, ignore_errors=True)
        elif _LEFTOVER.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


def withdraw(root: Path) -> bool:
    """Make the content of a folder unreadable unless it is held; return whether it is unreadable."""
    generation = current_generation(root)
    return generation is None or _withdraw(generation)


def _withdraw(generation: Path) -> bool:
    try:
        _remove_meta(generation / META_FILE)
    except FileNotFoundError:
        pass  # It was never finished, so nobody can have opened it.
    except (BlockingIOError, PermissionError):
        return False  # It is being read: a later writer will remove it.
    return True


def _remove_meta(meta: Path) -> None:
    """Remove ``meta.json`` unless it is held; without it nobody can open the generation."""
    if sys.platform == "win32":
        meta.unlink()
        return
    handle = os.open(meta, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # The file system has no locks: see Hold.
        meta.unlink()
    finally:
        os.close(handle)


def _refuse_strangers(root: Path) -> None:
    if not root.exists():
        return
    for path in root.iterdir():
        if not is_part_of_store(path.name):
            raise ValueError(
                f"The folder holds {path.name!r}, which is not part of a shard store. "
                f"Choose an empty or a new folder: {str(root)!r}"
            )


def _patiently(act: Callable[[], T]) -> T:
    """Retry what Windows refuses while another process has the file open."""
    pauses_s = (0.01, 0.05, 0.2, 0.5) if os.name == "nt" else ()
    for pause_s in pauses_s:
        with suppress(PermissionError):
            return act()
        time.sleep(pause_s)
    return act()
