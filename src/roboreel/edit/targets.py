"""The files of a new dataset: how each is made, and where its episodes lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

    from roboreel.edit.sources import Cut
    from roboreel.schema import FileSet, Manifest

Rung = Literal["kept", "linked", "copied", "remuxed", "rewritten", "re-encoded"]
"""How a file is made, from the cheapest way to the most expensive."""


class Facts(Protocol):
    """What the plan must know of a source's files."""

    manifest: Manifest

    def size_bytes(self, file: str) -> int:
        """Return the size of a file."""
        ...

    def coding(self, camera: str, episode: int) -> Hashable:
        """Return a key of videos whose packets can share a file; None if none can."""
        ...

    def has_unused(self, camera: str, episode: int) -> bool:
        """Return whether the video of an episode has images that belong to no episode."""
        ...

    def cut(self, camera: str, episode: int, start: int, stop: int, *, joined: bool) -> Cut:
        """Return whether some frames of an episode can be a file of their own, or part of one."""
        ...


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A data or video file of the new dataset."""

    file: str
    """Path below the new dataset's folder."""
    rung: Rung
    pieces: tuple[int, ...]
    """Numbers of its episodes, in the order of their rows."""
    sources: tuple[tuple[int, str], ...]
    """What it is made from: number of the source, and path below its folder."""
    size_bytes: int
    """How large it will be, about."""
    camera: str | None = None
    """New name of the camera; None for data."""

    @property
    def written_bytes(self) -> int:
        """Bytes that are written for it, about."""
        return 0 if self.rung in ("kept", "linked") else self.size_bytes


@dataclass(frozen=True, slots=True, eq=False)
class NewLayout:
    """The files of the new dataset, and where its episodes lie."""

    version: str
    fps: float
    start: NDArray[np.int64]
    """First row of each new episode."""
    length: NDArray[np.int64]
    data: tuple[FileTarget, ...]
    videos: tuple[FileTarget, ...]
    data_files: FileSet
    data_file: NDArray[np.int64]
    video_files: Mapping[str, FileSet]
    video_file: Mapping[str, NDArray[np.int64]]

    @property
    def order(self) -> NDArray[np.int64]:
        """The new episodes in the order of their rows."""
        return np.argsort(self.start, kind="stable")
