"""All that is known about a dataset without opening its data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.findings import Finding
    from roboreel.schema.episodes import EpisodeTable
    from roboreel.schema.feature import Feature
    from roboreel.schema.file_set import FileSet


class ManifestState(NamedTuple):
    """Changes when the dataset is changed after its manifest was read."""

    info: tuple[int, int]
    """Size and time of info.json, which every writer replaces."""
    changes: int | None
    """Time of the last edit, repair or undo; None if there was none that can be undone."""
    decided: int | None
    """Time of a commit whose files are being moved to their places, if there is one."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is known about a dataset without opening its data."""

    root: Path
    version: str
    """LeRobot's name of the layout: ``v2.0``, ``v2.1`` or ``v3.0``."""
    fps: float
    features: Mapping[str, Feature]
    tasks: Mapping[int, str]
    """Task texts by task number."""
    episodes: EpisodeTable
    data_files: FileSet
    video_files: Mapping[str, FileSet]
    """One entry per video camera."""
    robot_type: str | None = None
    subtasks: Mapping[int, str] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of info.json, kept as they were found."""
    files_per_chunk: int = 1000
    """How many files a folder takes; before v3.0, how many episodes."""
    problems: tuple[Finding, ...] = ()
    """Inconsistencies in the metadata."""
    state: ManifestState | None = field(default=None, compare=False, repr=False)
    """That of the files it was read from; None if it was made otherwise."""

    __hash__ = None  # type: ignore[assignment]

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the features whose values are images."""
        return tuple(name for name, feature in self.features.items() if feature.is_camera)

    @property
    def absent_cameras(self) -> frozenset[str]:
        """Cameras that are declared, but have no file: not read unless asked for by name."""
        return frozenset(str(found.feature) for found in self.problems if found.code == "RR109")
