"""Which frame of its episode each row is, by what the row itself says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, DatasetError, RemoteError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.frames.columns import Columns
    from roboreel.schema import Manifest

__all__ = ["FrameOrder"]


class FrameOrder:
    """The order of the rows of each episode, looked up once per episode.

    Rows are nearly always in order. Where they are not, the image of a row is the one of its
    ``frame_index``, not of its place. Where the data cannot be read, rows count as in order.
    """

    def __init__(self, manifest: Manifest, columns: Columns) -> None:
        self._manifest = manifest
        self._columns = columns
        self._known = np.zeros(len(manifest.episodes), dtype=bool)
        self._frames: dict[int, NDArray[np.int64]] = {}
        """By the position of the episode, if its rows are out of order: the frame of each row."""

    def frames_at(self, episode: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame of each row of an episode.

        Args:
            episode: The episode's position.
            places: Rows, counted from the first of the episode, ``(N,)``.

        Raises:
            CorruptFileError: What the rows say of their order is contradictory.
        """
        if not self._known[episode]:
            self._look_up(episode)
        frames = self._frames.get(episode)
        return places if frames is None else frames[places]

    def note(self, episode: int, numbers: NDArray[Any]) -> None:
        """Store the ``frame_index`` of all rows of an episode, which the caller has read."""
        if len(numbers) == self._manifest.episodes.length[episode] and _counts_up(numbers):
            self._known[episode] = True

    def places_of(self, episode: int, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that hold some frames, counted from the first row of the episode."""
        stored = self.frames_at(episode, np.arange(int(self._manifest.episodes.length[episode])))
        return np.argsort(stored, kind="stable")[frames]

    def times_of(self, episode: int, frames: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return when frames are, in seconds from the start of the episode.

        These are the stored timestamps, unless they are no clock: they must start at 0 and increase.
        """
        by_rate = frames / self._manifest.fps
        try:
            stored = self._gather("timestamp", episode).astype(np.float64)
        except RemoteError:
            raise
        except DatasetError:
            return by_rate
        every = np.arange(len(stored))
        stored = stored[self.places_of(episode, every)]
        is_clock = abs(stored[0]) < 0.5 / self._manifest.fps and (np.diff(stored) > 0).all()
        return stored[frames] if is_clock else by_rate

    def _look_up(self, episode: int) -> None:
        if self._manifest.episodes.length[episode]:
            try:
                numbers = self._gather("frame_index", episode)
                times_s = None if _counts_up(numbers) else self._gather("timestamp", episode)
            except RemoteError:
                raise  # The data can be read, only not now: nothing is assumed of its order.
            except DatasetError:
                return  # Not known: another try may succeed.
            if times_s is not None:
                self._compare(episode, numbers, times_s)
        self._known[episode] = True

    def _compare(self, episode: int, numbers: NDArray[Any], times_s: NDArray[Any]) -> None:
        """Note the order of an episode whose frame_index does not count up."""
        in_order = bool((np.diff(times_s) > 0).all())
        if not np.array_equal(np.sort(numbers), np.arange(len(numbers))):
            return  # It is no order: as in LeRobot, only check complains.
        if (np.diff(times_s[np.argsort(numbers, kind="stable")]) > 0).all():
            self._frames[episode] = numbers.astype(np.int64)
        elif in_order:
            number = int(self._manifest.episodes.number[episode])
            raise CorruptFileError(
                f"frame_index and timestamp of episode {number} put its rows in different orders, so "
                "that the images of its rows are not known. Leave the episode out with select(), or "
                f"correct one of the columns: {str(self._manifest.root)!r}."
            )

    def _gather(self, name: str, episode: int) -> NDArray[Any]:
        start = int(self._manifest.episodes.start[episode])
        rows = np.arange(start, start + int(self._manifest.episodes.length[episode]))
        return self._columns.gather(name, rows).reshape(-1)


def _counts_up(numbers: NDArray[Any]) -> bool:
    """Whether numbers count up by one: from 0, or from wherever a writer began."""
    return bool((np.diff(numbers) == 1).all())
