"""Where the values and the encoded images of a dataset come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.frames.columns import Columns
from roboreel.frames.frame_files import FrameFiles
from roboreel.frames.picture_columns import PictureColumns
from roboreel.memory.budget import process_budget
from roboreel.video.reader import VideoReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.dataset import Episode
    from roboreel.schema import Manifest

__all__ = ["Source"]


class Source:
    """Reads values and encoded images; one serves all episodes that are exported together."""

    def __init__(self, manifest: Manifest) -> None:
        budget = process_budget()
        files = FrameFiles(manifest.root, manifest.data_files, manifest.episodes, is_mapped=True)
        self.manifest = manifest
        self.name = manifest.root.resolve().name or "dataset"
        """What recordings of one dataset share, so that the viewer gives them one layout."""
        self.columns = Columns(files, manifest.features, budget)
        self.pictures = PictureColumns(files, budget)
        self.videos = VideoReader(budget=budget, threads=1)
        self.problems: list[str] = []
        """What could not be shown, one sentence each."""

    def read(self, episode: Episode, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return features of all frames of an episode, each ``(T, …)``; texts as objects."""
        return self.columns.read_span(names, episode.start, episode.stop)

    def note_missing(self, episode: Episode, camera: str, frames: NDArray[np.int64]) -> None:
        """Note that only some frames of an episode have an image."""
        missing = np.setdiff1d(np.arange(episode.length), frames)
        self.problems.append(
            f"Episode {episode.number} has no image of {camera!r} for {len(missing)} of its "
            f"{episode.length} frames, the first being frame {int(missing[0])}."
        )
