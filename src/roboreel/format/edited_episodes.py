"""The list of episodes of a dataset that is made from others; unknown columns and keys stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roboreel.format.episode_table import episode_list
from roboreel.format.statistics import read_episode_stats
from roboreel.format.tables_v3 import copy_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from roboreel.format.episode_list import Stage
    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

    Names = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a new episode comes from, and what is new about it."""

    source: int
    number: int
    """The number that it has there."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """What the metadata says of it from now on, by column; None for nothing."""
    stats: Mapping[str, FeatureStats] = field(default_factory=dict)
    """Statistics that are new, by the new name of the feature."""


@dataclass(frozen=True, slots=True, eq=False)
class EditedEpisodes:
    """The episodes of a new dataset, and those that they come from."""

    manifest: Manifest
    """The new dataset."""
    sources: Sequence[Manifest]
    origins: Sequence[Origin]
    """In the order of the new numbers."""
    names: Sequence[Names]
    """For each source, new names of features by old name; None for one that goes."""
    camera_stats: Callable[[], Sequence[Mapping[int, Mapping[str, FeatureStats]]]]
    """Returns the statistics of the cameras of each source, by number of the episode."""
    in_place: bool = False
    """Whether the files of the first source are replaced."""


def write_edited_episodes(edited: EditedEpisodes, stage: Stage) -> None:
    """Write the files that list the episodes of a new dataset; nothing is synced.

    Args:
        edited: The episodes.
        stage: Where to write each file; called in the order in which they are to appear.
    """
    manifests = (edited.manifest, *edited.sources)
    if all(manifest.version.startswith("v3") for manifest in manifests):
        copy_rows(edited, stage)
        return
    old = [episode_list(manifest).metadata() for manifest in edited.sources]
    metadata = [{**old[one.source][one.number], **one.columns} for one in edited.origins]
    episode_list(edited.manifest).write(stage, metadata, _stats_of_new(edited))


def _stats_of_new(edited: EditedEpisodes) -> Iterator[dict[str, FeatureStats]]:
    """Yield the statistics of each new episode, by the new names of the features."""
    own = [set(origin.stats) for origin in edited.origins]
    computed = set.intersection(*own) if own else set()
    stored = [_stored_stats(edited, source, computed) for source in range(len(edited.sources))]
    for origin in edited.origins:
        names = edited.names[origin.source]
        old = stored[origin.source].get(origin.number, {})
        named = {names.get(name, name): stats for name, stats in old.items()}
        known = {name: stats for name, stats in named.items() if name in edited.manifest.features}
        yield {**known, **origin.stats}  # type: ignore[dict-item]  # None is no feature


def _stored_stats(
    edited: EditedEpisodes, source: int, computed: set[str]
) -> Mapping[int, Mapping[str, FeatureStats]]:
    """Return the statistics of a source, of the features for which not every episode has new ones."""
    manifest, names = edited.sources[source], edited.names[source]
    wanted = [name for name in manifest.features if names.get(name, name) not in computed]
    if all(manifest.features[name].is_camera for name in wanted):
        return edited.camera_stats()[source]
    return dict(read_episode_stats(manifest, wanted))
