"""Whether a dataset is still what it was when it was opened, as far as its files are read."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import DatasetError, StaleDatasetError
from roboreel.forking import after_fork
from roboreel.format import read_manifest
from roboreel.format.manifest_state import ManifestFiles
from roboreel.spans.sources import source_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.schema import FileSet, Manifest, ManifestState

__all__ = ["Unchanged", "extends"]

# A writer that has decided moves its files within this time, unless it died.
_PATIENCE_S, _PAUSE_S = 10.0, 0.01


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

    def confirm(self) -> None:
        """Look whether the files that were opened until now are those of the manifest.

        Raises:
            StaleDatasetError: An edit, a repair or an undo has changed the dataset.
        """
        if self._state is not None and self._differs(self._state):
            with self._lock:
                self._compare(self._state)

    def _differs(self, state: ManifestState) -> bool:
        # In this order: info.json is the last file to be moved.
        return self._files.decided() != state.decided or self._files.info() != state.info

    def _compare(self, state: ManifestState) -> None:
        """Read the manifest again, and note the state of the dataset if it has only grown."""
        left = self._wait_for_writer(state.decided)
        try:
            now = read_manifest(self._manifest.root)
        except (DatasetError, OSError) as error:
            raise self._stale() from error
        if now.state is None or now.state.changes != state.changes:
            raise self._stale()
        if not extends(self._manifest, now):
            raise self._stale()
        self._state = now.state._replace(decided=left)

    def _wait_for_writer(self, left: int | None) -> int | None:
        """Wait until a change is carried out; return the time of one whose writer died, if any."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while (found := self._files.decided()) not in (None, left):
            if time.monotonic() > deadline_s:
                break
            time.sleep(_PAUSE_S)
        return found

    def _stale(self) -> StaleDatasetError:
        return StaleDatasetError(
            "The dataset was changed after it was opened, so that its files may hold other episodes "
            f"than those that were asked for. Open it again: {str(self._manifest.root)!r}."
        )


def extends(before: Manifest, now: Manifest) -> bool:
    """Return whether all that a manifest says holds of a later one, which may have more episodes."""
    old, new = before.episodes, now.episodes
    count = len(old)
    if len(new) < count or (before.version, before.fps) != (now.version, now.fps):
        return False
    if before.features != now.features or not before.tasks.items() <= now.tasks.items():
        return False
    columns = ("number", "start", "length", "data_row")
    if any(not np.array_equal(getattr(old, c), getattr(new, c)[:count]) for c in columns):
        return False
    if not _same_files(before.data_files, old.data_file, now.data_files, new.data_file[:count]):
        return False
    return all(
        np.array_equal(clips.start_s, new.clips[camera].start_s[:count], equal_nan=True)
        and np.array_equal(clips.stop_s, new.clips[camera].stop_s[:count], equal_nan=True)
        and _same_files(
            before.video_files[camera],
            clips.file,
            now.video_files[camera],
            new.clips[camera].file[:count],
        )
        for camera, clips in old.clips.items()
    )


def _same_files(
    left: FileSet, in_left: NDArray[np.int64], right: FileSet, in_right: NDArray[np.int64]
) -> bool:
    """Return whether episodes lie in files of the same names, which each side numbers itself."""
    if left.template != right.template or dict(left.constants) != dict(right.constants):
        return False
    has_file = in_left >= 0
    return np.array_equal(has_file, in_right >= 0) and all(
        np.array_equal(numbers[in_left[has_file]], right.numbers[name][in_right[has_file]])
        for name, numbers in left.numbers.items()
    )
