"""Statistics in the metadata ⇄ FeatureStats."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import MetadataError
from roboreel.format.episode_list import split_stat_column
from roboreel.stats import QUANTILES, FeatureStats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_KEYS = ("min", "max", "mean", "std")


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
    """Return what `stats_to_json` does for several episodes, by key that all have: a value for each.

    As arrays, if they are of one shape: most of the work on lists is making Python's numbers.
    """
    shape, quantiles = several[0].shape, several[0].quantiles
    shared = [key for key in quantiles if all(key in one.quantiles for one in several)]
    if not all(one.mean.size and one.shape == shape for one in several):
        entries = [stats_to_json(one) for one in several]
        return {key: [entry[key] for entry in entries] for key in (*_KEYS, "count", *shared)}

    def joined(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.concatenate(parts).reshape(-1, *shape) if shape else np.array(parts)[:, None]

    return {
        "min": joined([one.min for one in several]),
        "max": joined([one.max for one in several]),
        "mean": joined([one.mean for one in several]),
        "std": joined([one.std for one in several]),
        "count": np.array([[int(one.count.max(initial=0))] for one in several], np.int64),
        **{key: joined([one.quantiles[key] for one in several]) for key in shared},
    }


def _listed(values: NDArray[np.float64]) -> list[Any]:
    listed: list[Any] = values.tolist() if values.ndim else [values.item()]
    return listed
