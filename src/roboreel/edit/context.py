"""All that the writers of an edit share: what is made, from what, and how it is numbered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from roboreel.edit.layout import new_names
from roboreel.edit.recipe import frames_at_rate
from roboreel.errors import StaleDatasetError
from roboreel.format.counters import COUNTERS, EPISODE_NUMBER, TASK_NUMBER
from roboreel.format.episode_table import episode_list
from roboreel.format.paths import METADATA_FOLDER
from roboreel.format.statistics import read_stats_of
from roboreel.format.video_info import with_coding
from roboreel.io.states import digest_of, folder_state

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.edit.layout import FileTarget, NewLayout
    from roboreel.edit.recipe import Names, Piece, Recipe
    from roboreel.edit.sources import Source
    from roboreel.edit.tasks import TaskPlan
    from roboreel.io.states import FolderState
    from roboreel.schema import Feature
    from roboreel.stats import FeatureStats

RENUMBERED = (EPISODE_NUMBER, "index", TASK_NUMBER)
"""Counters that change although an episode stays as it is."""


@dataclass(frozen=True)
class EditContext:
    """What an edit makes."""

    recipe: Recipe
    sources: tuple[Source, ...]
    tasks: TaskPlan
    subtasks: TaskPlan
    layout: NewLayout
    in_place: bool

    @cached_property
    def features(self) -> dict[str, Feature]:
        """The features of the new dataset."""
        first, recipe = self.sources[0].manifest, self.recipe
        features = {n: first.features[old] for n, old in new_names(first, recipe.names[0]).items()}
        for source, names in zip(self.sources[1:], recipe.names[1:], strict=True):
            known = new_names(source.manifest, names)
            for name in recipe.padded:
                if name in known and name not in features:
                    features[name] = source.manifest.features[known[name]]
        if self.layout.version[:2] != first.version[:2]:
            features |= {name: one for name, one in COUNTERS.items() if name not in features}
        for name, coding in recipe.codings.items():
            fps = self.layout.fps
            features[name] = with_coding(features[name], coding.encoding, coding.size, fps)
        return features

    @cached_property
    def changes_rows(self) -> bool:
        """Whether rows come or go, so that statistics change."""
        return not self.keeps_every_row or self.recounts

    @property
    def recounts(self) -> bool:
        """Whether statistics are computed although no row comes or goes."""
        return self.recipe.anew or self.layout.version != self.sources[0].manifest.version

    @cached_property
    def keeps_every_row(self) -> bool:
        """Whether the new dataset has the rows of one old one, all of them."""
        episodes = self.sources[0].manifest.episodes
        kept = {piece.episode for piece in self.recipe.pieces if piece.is_whole}
        return (
            len(self.sources) == 1
            and self.recipe.fps is None
            and len(self.recipe.pieces) == len(kept) == int((episodes.length > 0).sum())
        )

    @cached_property
    def changes_tasks(self) -> bool:
        """Whether rows get other task numbers."""
        return any(
            self.tasks.changes(p, self.source(p).manifest.episodes.tasks_of(p.episode))
            for p in self.recipe.pieces
        )

    @cached_property
    def first_stats(self) -> dict[str, FeatureStats]:
        """The statistics of the first episode of the first source; empty if it has none."""
        manifest = self.sources[0].manifest
        numbers = manifest.episodes.number
        return read_stats_of(episode_list(manifest), int(numbers[0])) if len(numbers) else {}

    @property
    def lacks_own(self) -> bool:
        """Whether the first source has no statistics of single episodes."""
        return not self.first_stats

    def states(self, *, metadata_only: bool = False) -> tuple[FolderState, ...]:
        """Return the state of each source: its metadata, and the files that are read."""
        used: list[set[str]] = [set() for _ in self.sources]
        for target in () if metadata_only else (*self.layout.data, *self.layout.videos):
            for source, path in target.sources:
                used[source].add(path)
        pairs = zip(self.sources, used, strict=True)
        return tuple(folder_state(one.root, files, whole=METADATA_FOLDER) for one, files in pairs)

    def check_states(self, digest: str, *, metadata_only: bool = False) -> None:
        """Raise if a source has changed since a job took down the digest of its state.

        Raises:
            StaleDatasetError: One has.
        """
        if digest_of(self.states(metadata_only=metadata_only)) != digest:
            raise StaleDatasetError(
                "The dataset has changed since the job was made. Remove the job, and plan it again: "
                f"{', '.join(repr(str(source.root)) for source in self.sources[:4])}."
            )

    def old_file(self, target: FileTarget) -> Path:
        """Return the file whose bytes a file of the new dataset has."""
        source, path = target.sources[0]
        return self.sources[source].root / path

    def source(self, piece: Piece) -> Source:
        """Return the dataset that a piece comes from."""
        return self.sources[piece.source]

    def names(self, piece: Piece) -> Names:
        """Return the new names of the features of a piece's source."""
        return self.recipe.names[piece.source]

    def old_name(self, piece: Piece, name: str) -> str:
        """Return what a feature is called in the source of a piece."""
        return self._known[piece.source].get(name, name)

    @cached_property
    def _known(self) -> list[dict[str, str]]:
        """By source, old names of features by new name."""
        pairs = zip(self.sources, self.recipe.names, strict=True)
        return [new_names(source.manifest, names) for source, names in pairs]

    def frames(self, number: int) -> NDArray[np.int64]:
        """Return which frames of its old episode a new episode has."""
        piece = self.recipe.pieces[number]
        return frames_at_rate(piece, self.source(piece).manifest.fps, self.recipe.fps)

    def lacking(self, piece: Piece) -> list[str]:
        """Return the features that the source of a piece lacks, so that its rows are padded."""
        if not self.recipe.padded:
            return []
        return [name for name in self.recipe.padded if name not in self._known[piece.source]]

    def is_whole(self, number: int) -> bool:
        """Whether a new episode has all frames of its old one."""
        return self.recipe.pieces[number].is_whole and self.recipe.fps is None

    def old_number(self, number: int) -> int:
        """Return the number that the old episode has in its dataset."""
        piece = self.recipe.pieces[number]
        return int(self.source(piece).manifest.episodes.number[piece.episode])
