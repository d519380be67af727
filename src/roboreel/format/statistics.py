"""The statistics that the metadata has of a dataset and of its episodes, read and changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import MetadataError
from roboreel.format.edits import edit_json
from roboreel.format.episode_list import split_stat_column, stat_column
from roboreel.format.episode_table import episode_list
from roboreel.format.json_files import read_json, read_object
from roboreel.format.paths import STATS_PATH
from roboreel.format.stats_json import dataset_stats_to_json, stats_from_columns, stats_from_json
from roboreel.stats import merge_stats

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.format.edits import FileEdit
    from roboreel.format.episode_list import EpisodeList
    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

_KEYS = ("min", "max", "mean", "std")


def read_stats(manifest: Manifest) -> dict[str, FeatureStats]:
    """Return the statistics of the whole dataset from its metadata; empty if there are none.

    Where only episodes have statistics (v2.1), theirs are merged, as LeRobot does.
    """
    path = manifest.root / STATS_PATH
    if path.exists():
        entries = read_object(path).items()
        return {name: stats_from_json(name, entry, str(path)) for name, entry in entries}
    merged: dict[str, list[FeatureStats]] = {}
    for _, stats in read_episode_stats(manifest):
        for name, feature_stats in stats.items():
            merged.setdefault(name, []).append(feature_stats)
    return {name: merge_stats(parts) for name, parts in merged.items()}


def read_episode_stats(
    manifest: Manifest, features: Collection[str] | None = None
) -> Iterator[tuple[int, dict[str, FeatureStats]]]:
    """Yield the number and the statistics of each episode that has statistics.

    Args:
        manifest: The dataset.
        features: Whose statistics; by default those of all.
    """
    for part in episode_list(manifest).statistics(features):
        for row, number in enumerate(part.numbers):
            values = {name: column[row] for name, column in part.columns.items()}
            yield number, stats_from_columns(values, part.where)


def read_stats_of(listed: EpisodeList, number: int) -> dict[str, FeatureStats]:
    """Return the statistics of the episode with this number; empty if there are none.

    Raises:
        MetadataError: They cannot be understood.
    """
    where, values = listed.statistics_of(number)
    return stats_from_columns(values, where)


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeStatColumns:
    """One feature's statistics of every episode, each ``(E, D)``; NaN where there are none."""

    min: NDArray[np.float64]
    max: NDArray[np.float64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]


def read_episode_stat_columns(
    manifest: Manifest, features: Collection[str]
) -> dict[str, EpisodeStatColumns]:
    """Return the statistics that the metadata has of each episode, by feature: quick to compare.

    What is not numbers, or has another shape in another episode, is left out.

    Raises:
        CorruptFileError: A file cannot be read.
        MetadataError: A line is not about an episode.
    """
    columns: dict[str, NDArray[np.float64]] = {}
    odd: set[str] = set()
    for numbers, name, values in episode_list(manifest).numbers(features, _KEYS):
        listed = np.isin(numbers, manifest.episodes.number)
        positions = np.searchsorted(manifest.episodes.number, numbers[listed])
        if name not in columns:
            columns[name] = np.full((len(manifest.episodes), values.shape[1]), np.nan)
        if columns[name].shape[1] == values.shape[1]:
            columns[name][positions] = values[listed]
        else:
            odd.add(split_stat_column(name)[0])
    found = {}
    for feature in features:
        own = [columns.get(stat_column(feature, key)) for key in _KEYS]
        there = [column for column in own if column is not None]
        is_alike = len(there) == len(_KEYS) and len({column.shape for column in there}) == 1
        if is_alike and feature not in odd:
            found[feature] = EpisodeStatColumns(*there)
    return found


def stored_stats(root: Path) -> dict[str, Any]:
    """Return what stats.json of a dataset says; empty if there is none."""
    path = root / STATS_PATH
    raw = read_json(path) if path.exists() else {}
    return raw if isinstance(raw, dict) else {}


def edited_stats(
    raw: Mapping[str, Any],
    names: Mapping[str, str | None],
    new: Mapping[str, FeatureStats],
    *,
    version: str,
    features: Collection[str],
) -> dict[str, Any]:
    """Return what stats.json says: what is stored under new names, and what is new.

    Args:
        raw: What is stored.
        names: New names of features; None for one that goes.
        new: Statistics that are new, by new name.
        version: The new dataset's version: v2.0 has no counts and no quantiles.
        features: The features of the new dataset.
    """
    known = {names.get(name, name): entry for name, entry in raw.items()}
    kept = {name: entry for name, entry in known.items() if name is not None}
    known_new = {name: stats for name, stats in new.items() if name in features}
    return {**kept, **dataset_stats_to_json(known_new, version)}


def stores_whole_stats(manifest: Manifest) -> bool:
    """Return whether a dataset should have statistics of all rows together; v2.1 need not."""
    return manifest.version != "v2.1" or (manifest.root / STATS_PATH).exists()


def edit_stats(manifest: Manifest, stats: Mapping[str, FeatureStats]) -> FileEdit | None:
    """Return how stats.json must change; None if not at all. An unreadable file is written anew."""
    try:
        old = stored_stats(manifest.root)
    except MetadataError:
        old = {}
    known = {name: stats[name] for name in manifest.features if name in stats}
    new = edited_stats(old, {}, known, version=manifest.version, features=manifest.features)
    return edit_json(STATS_PATH, old, new)
