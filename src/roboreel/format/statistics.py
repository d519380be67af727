"""Statistics in the metadata ⇄ FeatureStats."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import MetadataError
from roboreel.format.episode_table import episode_list, split_stat_column, stat_column
from roboreel.format.json_files import read_json
from roboreel.format.paths import STATS_PATH
from roboreel.stats import QUANTILES, FeatureStats, merge_stats

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.format.episode_table import EpisodeList
    from roboreel.schema import Manifest

_KEYS = ("min", "max", "mean", "std")


def read_stats(manifest: Manifest) -> dict[str, FeatureStats]:
    """Return the statistics of the whole dataset from its metadata; empty if there are none.

    Where only episodes have statistics (v2.1), theirs are merged, as LeRobot does.
    """
    path = manifest.root / STATS_PATH
    if path.exists():
        raw = read_json(path)
        if not isinstance(raw, dict):
            raise MetadataError(
                f"An object was expected, not a {type(raw).__name__}: {str(path)!r}."
            )
        return {name: stats_from_json(name, entry, str(path)) for name, entry in raw.items()}
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
        positions, listed = _positions(manifest, numbers)
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


def _positions(
    manifest: Manifest, numbers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the positions of those episodes that the dataset has, and which these are."""
    known = manifest.episodes.number
    found = np.searchsorted(known, numbers)
    listed = found < len(known)
    listed[listed] = known[found[listed]] == numbers[listed]
    return found[listed].astype(np.int64), listed


def stats_from_json(name: str, raw: Mapping[str, Any], where: str) -> FeatureStats:
    """Return one feature's statistics.

    Raises:
        MetadataError: They are not numbers, or some are missing.
    """
    try:
        # v2.0 has no counts, and only v3.0 has quantiles.
        return FeatureStats(
            min=np.asarray(raw["min"], dtype=np.float64),
            max=np.asarray(raw["max"], dtype=np.float64),
            mean=np.asarray(raw["mean"], dtype=np.float64),
            std=np.asarray(raw["std"], dtype=np.float64),
            count=np.asarray(raw.get("count", 0), dtype=np.int64).reshape(-1)[:1].reshape(()),
            quantiles={
                key: np.asarray(raw[key], dtype=np.float64) for key in QUANTILES if key in raw
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MetadataError(
            f"The statistics of {name!r} cannot be understood ({error!r}): {where!r}."
        ) from error


def stats_from_columns(values: Mapping[str, Any], where: str) -> dict[str, FeatureStats]:
    """Return statistics by feature from the columns ``stats/<feature>/<key>`` of one episode."""
    return {name: stats_from_json(name, raw, where) for name, raw in by_feature(values).items()}


def by_feature(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the columns ``stats/<feature>/<key>`` of one episode as stats.json has them."""
    raw: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        feature, key = split_stat_column(name)
        if value is not None:
            raw.setdefault(feature, {})[key] = value
    return raw


def legible_stats(entries: Mapping[str, Any]) -> dict[str, FeatureStats]:
    """Return what can be understood of statistics as stats.json has them, with NaN for what is missing.

    A feature with anything else than numbers is left out.
    """
    found: dict[str, FeatureStats] = {}
    for name, raw in entries.items():
        with suppress(MetadataError, AttributeError, StopIteration, ValueError):
            known = {key: one for key, one in raw.items() if isinstance(one, (list, int, float))}
            shape = np.shape(next(known[key] for key in _KEYS if key in known))
            unknown = dict.fromkeys(_KEYS, np.full(shape, np.nan))
            found[name] = stats_from_json(name, {**unknown, **known}, "")
    return found


def stats_to_json(stats: FeatureStats) -> dict[str, Any]:
    """Return what stats.json has for one feature.

    A feature of one number has lists of one, too: LeRobot refuses to add an episode to others.
    """
    return {
        "min": _listed(stats.min),
        "max": _listed(stats.max),
        "mean": _listed(stats.mean),
        "std": _listed(stats.std),
        "count": [int(stats.count.max(initial=0))],
        **{key: _listed(values) for key, values in stats.quantiles.items()},
    }


def dataset_stats_to_json(stats: Mapping[str, FeatureStats], version: str) -> dict[str, Any]:
    """Return what stats.json says in a version: v2.0 has no counts and no quantiles."""
    entries = {name: stats_to_json(one) for name, one in stats.items()}
    if version == "v2.0":
        return {name: {key: entry[key] for key in _KEYS} for name, entry in entries.items()}
    return entries


def stats_to_columns(several: Sequence[FeatureStats]) -> dict[str, NDArray[Any] | list[Any]]:
    """Return what `stats_to_json` does for several episodes, by key: a value for each.

    As arrays, if they are of one shape: most of the work on lists is making Python's numbers.
    """
    shape, keys = several[0].shape, several[0].quantiles.keys()
    if not all(
        one.mean.size and one.shape == shape and one.quantiles.keys() == keys for one in several
    ):
        columns: dict[str, list[Any]] = {}
        for one in several:
            for key, value in stats_to_json(one).items():
                columns.setdefault(key, []).append(value)
        return dict(columns)

    def joined(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.concatenate(parts).reshape(-1, *shape) if shape else np.array(parts)[:, None]

    return {
        "min": joined([one.min for one in several]),
        "max": joined([one.max for one in several]),
        "mean": joined([one.mean for one in several]),
        "std": joined([one.std for one in several]),
        "count": np.array([[int(one.count.max(initial=0))] for one in several], np.int64),
        **{key: joined([one.quantiles[key] for one in several]) for key in keys},
    }


def _listed(values: NDArray[np.float64]) -> list[Any]:
    listed: list[Any] = values.tolist() if values.ndim else [values.item()]
    return listed
