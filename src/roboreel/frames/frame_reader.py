"""The one entry to what a dataset stores: values, pictures and clips."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import TYPE_CHECKING

from roboreel.format.counters import TASK_NUMBER
from roboreel.frames.clips import Clips, FrameOrder
from roboreel.frames.columns import Columns
from roboreel.frames.frame_files import FrameFiles
from roboreel.frames.picture_columns import PictureColumns
from roboreel.frames.pieces import DerivedCounters
from roboreel.frames.unchanged import Unchanged
from roboreel.io.budget import process_budget
from roboreel.io.sources import source_of
from roboreel.video.reader import VideoReader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roboreel.frames.fetching import Fetching
    from roboreel.io.budget import Budget
    from roboreel.schema import Manifest


_NULL = -1


class FrameReader:
    """Reads the data and video files of one dataset. No file is opened before it is needed.

    Args:
        manifest: The dataset.
        budget: Holds what was read. Default: the process's budget.
        decode_threads: How many threads decode video at the same time. Default: one per core.
    """

    def __init__(
        self,
        manifest: Manifest,
        budget: Budget | None = None,
        *,
        decode_threads: int | None = None,
    ) -> None:
        self.budget = budget or process_budget()
        """Holds what was read."""
        self._decode_threads = decode_threads
        self.manifest = manifest
        self.unchanged = Unchanged(manifest)
        """Whether the files are still those that the manifest lists."""
        self.files = FrameFiles(
            manifest.root,
            manifest.data_files,
            manifest.episodes,
            self.budget,
            self.unchanged.confirm,
        )
        """Which rows lie in which data file."""
        derived = DerivedCounters(manifest, self.files)
        self.columns = Columns(self.files, manifest.features, self.budget, derived)
        """Numbers and texts, by row."""
        self.fetching: Fetching | None = None
        """Fetches what a batch needs ahead of reading it; None if the files are on this machine."""
        if source_of(manifest.root) is not None:
            # Imported here: few datasets are remote.
            from roboreel.frames.fetching import Fetching

            self.fetching = Fetching(
                manifest, self.files, self.columns, self.pictures, self.videos, self.clips
            )

    @cached_property
    def task_texts(self) -> TaskTexts:
        """Tasks in words, by row."""
        return TaskTexts(self.manifest, self.columns)

    @cached_property
    def pictures(self) -> PictureColumns:
        """Encoded pictures, by row."""
        return PictureColumns(self.manifest.root, self.files, self.budget)

    @cached_property
    def videos(self) -> VideoReader:
        """Images of video, by clip."""
        return VideoReader(budget=self.budget, threads=self._decode_threads)

    @cached_property
    def clips(self) -> Clips:
        """The part of a video file that shows an episode."""
        return Clips(self.manifest, self.videos, FrameOrder(self.manifest, self.columns))


class TaskTexts:
    """Turns the numbers of tasks into texts."""

    def __init__(self, manifest: Manifest, columns: Columns) -> None:
        self._manifest = manifest
        self._columns = columns
        self._undefined: set[int] = set()
        """Numbers that no task has, and that were warned of."""

    def tasks(
        self,
        rows: NDArray[np.int64],
        episodes: NDArray[np.int64],
        numbers: NDArray[np.int64] | None = None,
    ) -> list[str]:
        """Return the task of each row; an empty text if its number is null or not defined.

        Of a number that is not defined, a `RuntimeWarning` names the first episode.
        Where there are no numbers, or no table that defines them, it is the episode's.

        Args:
            rows: Rows of the dataset, ``(N,)``.
            episodes: The position of each row's episode, ``(N,)``.
            numbers: The number of each row's task, ``(N,)``, if known; else they are read.
        """
        if numbers is None:
            numbers = self._columns.gather_tasks(TASK_NUMBER, rows)
        texts = self._manifest.tasks
        return [
            texts[number] if number in texts else self._without_text(number, row, episode)
            for number, row, episode in zip(
                numbers.tolist(), rows.tolist(), episodes.tolist(), strict=True
            )
        ]

    def subtasks(
        self, rows: NDArray[np.int64], numbers: NDArray[np.int64] | None = None
    ) -> list[str]:
        """Return the subtask of each row; an empty text if its number is null or not defined."""
        if numbers is None:
            numbers = self._columns.gather_tasks("subtask_index", rows)
        return [self._manifest.subtasks.get(number, "") for number in numbers.tolist()]

    def _without_text(self, number: int, row: int, episode: int) -> str:
        episodes = self._manifest.episodes
        if not (self._manifest.tasks and self._columns.is_stored(TASK_NUMBER, row)):
            return episodes.first_task(episode)
        if number != _NULL and number not in self._undefined:
            self._undefined.add(number)
            warnings.warn(
                f"Episode {episodes.number[episode]} has task_index {number}, which no task has: "
                "the task is an empty text there. Run `roboreel check --tier numbers`: "
                f"{str(self._manifest.root)!r}.",
                RuntimeWarning,
                stacklevel=2,
            )
        return ""
