"""Dataset: the friendly face of reading."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roboreel.dataset.episodes import Episodes
from roboreel.format import read_manifest

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from roboreel.schema import Feature, Manifest

__all__ = ["Dataset", "open_dataset"]


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Open a LeRobot dataset (v2.0, v2.1 or v3.0) in place.

    Only metadata is read: no data or video file is touched, nothing is written.

    Args:
        path: The folder that holds ``meta/info.json``.

    Raises:
        NotADatasetError: There is no dataset at this path.
        UnsupportedVersionError: It is of a version that is not read.
        MetadataError: A metadata file cannot be understood.
    """
    root = Path(path).expanduser()
    return Dataset(read_manifest(root))


class Dataset:
    """A LeRobot dataset, read in place; it never changes a file."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @property
    def path(self) -> Path:
        """The dataset's folder."""
        return self.manifest.root

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self.manifest.fps

    @property
    def features(self) -> Mapping[str, Feature]:
        """What every frame has, by name."""
        return self.manifest.features

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the features whose values are images."""
        return self.manifest.cameras

    @property
    def tasks(self) -> Mapping[int, str]:
        """Task texts by task number."""
        return self.manifest.tasks

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not add up in the metadata, one sentence each; empty for a sound dataset."""
        return self.manifest.problems

    @property
    def episodes(self) -> Episodes:
        """The episodes, as a lazy sequence."""
        return Episodes(self, np.arange(len(self.manifest.episodes), dtype=np.int64))

    def __len__(self) -> int:
        """How many frames there are."""
        return self.manifest.episodes.num_rows

    def __repr__(self) -> str:
        return (
            f"Dataset({str(self.path)!r}, {len(self.episodes)} episodes, {len(self)} frames, "
            f"{self.fps:g} fps, {self.manifest.version})"
        )
