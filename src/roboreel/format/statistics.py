"""Statistics in the metadata ⇄ FeatureStats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import MetadataError
from roboreel.format.json_files import read_json
from roboreel.format.lerobot_v3 import episode_files
from roboreel.format.paths import STATS_PATH
from roboreel.stats import QUANTILES, FeatureStats, merge_stats
from roboreel.storage.jsonl import read_lines
from roboreel.storage.parquet_table import open_parquet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.schema import Manifest

__all__ = [
    "read_episode_stats",
    "read_stats",
    "stats_from_columns",
    "stats_from_json",
    "stats_to_columns",
    "stats_to_json",
]


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
    if manifest.version.startswith("v3"):
        yield from _from_tables(manifest, features)
        return
    path = manifest.root / "meta" / "episodes_stats.jsonl"
    if not path.exists():
        return
    for line, entry in read_lines(path):
        where = f"line {line} of {path}"
        number, stats = entry.get("episode_index"), entry.get("stats")
        if not isinstance(number, int) or not isinstance(stats, dict):
            raise MetadataError(f"'episode_index' and 'stats' were expected at {where!r}.")
        wanted = stats if features is None else {n: stats[n] for n in features if n in stats}
        yield number, {name: stats_from_json(name, raw, where) for name, raw in wanted.items()}


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
    raw: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        feature, _, key = name.removeprefix("stats/").rpartition("/")
        if value is not None:
            raw.setdefault(feature, {})[key] = value
    return {name: stats_from_json(name, entry, where) for name, entry in raw.items()}


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


def _from_tables(
    manifest: Manifest, features: Collection[str] | None
) -> Iterator[tuple[int, dict[str, FeatureStats]]]:
    for path in episode_files(manifest.root):
        with open_parquet(path) as table:
            names = [name for name in table.column_names if _is_wanted(name, features)]
            columns = table.arrays(["episode_index", *names])
        for row, number in enumerate(columns["episode_index"]):
            yield number, stats_from_columns({n: columns[n][row] for n in names}, str(path))


def _is_wanted(column: str, features: Collection[str] | None) -> bool:
    feature = column.removeprefix("stats/").rpartition("/")[0]
    return column.startswith("stats/") and (features is None or feature in features)
