"""What the metadata says of a dataset, and so of every view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.mirror.opening import mirror_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.findings import Finding
    from roboreel.mirror.counts import Fetched
    from roboreel.schema import Feature, Manifest


class Described:
    """A dataset as its manifest describes it."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @property
    def path(self) -> Path:
        """The dataset's folder; of a remote one, the folder of its mirror: see `url`."""
        return self.manifest.root

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self.manifest.fps

    @property
    def version(self) -> str:
        """LeRobot's name of its layout: ``v2.0``, ``v2.1`` or ``v3.0``."""
        return self.manifest.version

    @property
    def robot_type(self) -> str | None:
        """The robot that recorded it, if the metadata says so."""
        return self.manifest.robot_type

    @property
    def features(self) -> Mapping[str, Feature]:
        """The features of every frame, by name."""
        return self.manifest.features

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the features whose values are images."""
        return self.manifest.cameras

    @property
    def subtasks(self) -> Mapping[int, str]:
        """Subtask texts by subtask number; of a view too, all of the dataset."""
        return self.manifest.subtasks

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Inconsistencies in the metadata; empty for a sound dataset. Each prints as a sentence."""
        return self.manifest.problems

    @property
    def url(self) -> str | None:
        """Where a remote dataset lies, without any secret; None for one on this machine."""
        mirror = mirror_of(self.manifest.root)
        return None if mirror is None else mirror.url

    @property
    def is_remote(self) -> bool:
        """Whether the files are elsewhere, and are fetched when they are needed."""
        return self.url is not None

    @property
    def fetched(self) -> Fetched | None:
        """What this process has fetched of a remote dataset; None for one on this machine."""
        mirror = mirror_of(self.manifest.root)
        return None if mirror is None else mirror.fetched()
