"""The one entry to what a dataset stores: values, pictures and clips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.frames.clips import Clips
from roboreel.frames.columns import Columns
from roboreel.frames.derived import DerivedCounters
from roboreel.frames.frame_files import FrameFiles
from roboreel.frames.frame_order import FrameOrder
from roboreel.frames.picture_columns import PictureColumns
from roboreel.frames.task_texts import TaskTexts
from roboreel.frames.unchanged import Unchanged
from roboreel.io.budget import process_budget
from roboreel.io.sources import source_of
from roboreel.video.reader import VideoReader

if TYPE_CHECKING:
    from roboreel.frames.fetching import Fetching
    from roboreel.io.budget import Budget
    from roboreel.schema import Manifest

__all__ = ["FrameReader"]


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
        budget = budget or process_budget()
        self.manifest = manifest
        self.unchanged = Unchanged(manifest)
        """Whether the files are still those that the manifest lists."""
        self.files = FrameFiles(
            manifest.root,
            manifest.data_files,
            manifest.episodes,
            budget,
            self.unchanged.confirm,
        )
        """Which rows lie in which data file."""
        derived = DerivedCounters(manifest, self.files)
        self.columns = Columns(self.files, manifest.features, budget, derived)
        """Numbers and texts, by row."""
        self.task_texts = TaskTexts(manifest, self.columns)
        """Tasks in words, by row."""
        self.pictures = PictureColumns(manifest.root, self.files, budget)
        """Encoded pictures, by row."""
        self.videos = VideoReader(budget=budget, threads=decode_threads)
        """Images of video, by clip."""
        self.clips = Clips(manifest, self.videos, FrameOrder(manifest, self.columns))
        """The part of a video file that shows an episode."""
        self.fetching: Fetching | None = None
        """Fetches what a batch needs ahead of reading it; None if the files are on this machine."""
        if source_of(manifest.root) is not None:
            # Imported here: few datasets are remote.
            from roboreel.frames.fetching import Fetching

            self.fetching = Fetching(
                manifest, self.files, self.columns, self.pictures, self.videos, self.clips
            )
