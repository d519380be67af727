"""Whether a dataset is still what it was when it was opened, as far as its files are read."""

from __future__ import annotations

import hashlib
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import DatasetError, StaleDatasetError, UnfinishedChangeError
from roboreel.forking import after_fork
from roboreel.format import read_manifest
from roboreel.format.manifest_state import ManifestFiles
from roboreel.io.sources import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from roboreel.schema import FileSet, Manifest, ManifestState


class Unchanged:
    """Refuses files that an edit has put in the place of those that a manifest lists.

    File names are used again: before v3.0, episode 3 becomes episode 2 when the one before is
    deleted. So whoever opens a file by what a manifest says has to look afterwards whether the
    dataset is still the same. Episodes that were only added do no harm. Safe to use from threads,
    and after a fork.

    Args:
        manifest: The dataset as it was opened. One that is remote is not looked at: its mirror
            knows when a file has changed.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._files = ManifestFiles(manifest.root)
        self._state = manifest.state if source_of(manifest.root) is None else None
        self._begin()
        after_fork(self, Unchanged._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._given_up: tuple[int | None, str] = (None, "")
        """A change that was waited for long enough, by its time, and what is said of it."""

    def confirm(self) -> None:
        """Look whether the files that were opened until now are those of the manifest.

        Raises:
            StaleDatasetError: An edit, a repair or an undo has changed the dataset.
            UnfinishedChangeError: It was decided, and is not finished.
        """
        if self._state is not None and self._differs(self._state):
            with self._lock:
                if self._differs(self._state):  # Otherwise another thread has just compared it.
                    self._compare(self._state)

    def _differs(self, state: ManifestState) -> bool:
        # In this order: info.json is the last file to be moved.
        return self._files.decided() != state.decided or self._files.info() != state.info

    def _compare(self, state: ManifestState) -> None:
        """Read the manifest again, and note the state of the dataset if it has only grown."""
        decided = self._files.decided()
        if decided is not None and decided == self._given_up[0]:
            raise UnfinishedChangeError(self._given_up[1])
        try:
            now = read_manifest(self._manifest.root)
        except UnfinishedChangeError as error:
            self._given_up = decided, str(error)
            raise
        except (DatasetError, OSError) as error:
            raise self._stale() from error
        if (
            now.state is None
            or now.state.changes != state.changes
            or not extends(self._manifest, now)
        ):
            raise self._stale()
        self._state = now.state

    def _stale(self) -> StaleDatasetError:
        return StaleDatasetError(
            "The dataset was changed after it was opened, so its files may hold other episodes "
            f"than those that were asked for. Open it again: {str(self._manifest.root)!r}."
        )


@contextmanager
def telling_changes(confirm: Callable[[], None]) -> Iterator[None]:
    """If a file cannot be read because the dataset was changed, say that: its name may be gone."""
    try:
        yield
    except (StaleDatasetError, UnfinishedChangeError):
        raise  # It is said already: looking again would wait as long again.
    except DatasetError:
        confirm()
        raise


def extends(before: Manifest, now: Manifest) -> bool:
    """Return whether all that a manifest says holds of a later one, which may have more episodes."""
    known = len(before.episodes), fingerprint(before, len(before.episodes))
    return before.tasks.items() <= now.tasks.items() and begins_with(now, *known)


def begins_with(manifest: Manifest, num_episodes: int, known: str) -> bool:
    """Return whether the first episodes of a manifest are those of a fingerprint."""
    return len(manifest.episodes) >= num_episodes and fingerprint(manifest, num_episodes) == known


def is_still(
    manifest: Manifest, num_episodes: int, known: str, state: ManifestState | None
) -> bool:
    """Return whether a manifest begins with the episodes of a fingerprint, and was not edited since.

    An edit that keeps all places may give files of the same names other values. The undo store knows
    it; a copy of a dataset may have none, and is compared by its fingerprint alone.

    Args:
        manifest: The dataset as it is now.
        num_episodes: How many episodes it had.
        known: Their fingerprint.
        state: Its state then.
    """
    now = manifest.state
    if now is None or state is None or now.info == state.info:
        edited = False
    else:
        edited = now.changes not in (None, state.changes)
    return not edited and begins_with(manifest, num_episodes, known)


def fingerprint(manifest: Manifest, num_episodes: int) -> str:
    """Return what is another text if the first episodes, or how to read them, are not the same.

    Neither times nor the folder count, so that a copy of a dataset has the same.
    """
    table, first = manifest.episodes, slice(num_episodes)
    digest = hashlib.sha256(
        repr((manifest.version, manifest.fps, dict(manifest.features))).encode("utf-8", "replace")
    )
    bounds = table.task_bounds[: num_episodes + 1]
    for column in (table.number, table.start, table.length, table.data_row):
        digest.update(column[first].astype(np.int64).tobytes())
    digest.update(bounds.astype(np.int64).tobytes())
    texts = [table.task_texts[code] for code in table.task_codes[: bounds[-1]].tolist()]
    known = sorted(item for item in manifest.tasks.items() if item[1] in set(texts))
    digest.update(repr((texts, known)).encode("utf-8", "replace"))
    _add_files(digest, manifest.data_files, table.data_file[first])
    for camera, clips in table.clips.items():
        for seconds in (clips.start_s, clips.stop_s):
            digest.update(seconds[first].astype(np.float64).tobytes())
        _add_files(digest, manifest.video_files[camera], clips.file[first])
    return digest.hexdigest()


def _add_files(digest: hashlib._Hash, files: FileSet, episodes: NDArray[np.int64]) -> None:
    """Add the names of the episodes' files, whatever their places in the set."""
    digest.update(repr((files.template, dict(files.constants))).encode("utf-8", "replace"))
    for numbers in files.numbers.values():
        there = np.append(numbers, -1)  # For episodes without a file, whose place is -1.
        digest.update(there[episodes].astype(np.int64).tobytes())
