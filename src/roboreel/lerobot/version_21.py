"""Answers of LeRobot 2.1's dataset API, which openpi and GR00T read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from roboreel.errors import UnsupportedArgumentError
from roboreel.format.episode_table import episode_list
from roboreel.format.statistics import read_episode_stats
from roboreel.stats import FeatureStats, merge_stats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.schema import Manifest

API_V21, _API_V30 = "v2.1", "v3.0"


def choose_api(api: str | None, version: str) -> str:
    """Return which of LeRobot's dataset APIs answers: the one asked for, or that of the dataset.

    Raises:
        UnsupportedArgumentError: There is no such API.

    Examples:
        >>> choose_api(None, "v2.0"), choose_api(None, "v3.0"), choose_api("v3.0", "v2.1")
        ('v2.1', 'v3.0', 'v3.0')
    """
    if api is None:
        return API_V21 if version.startswith("v2") else _API_V30
    if api not in (API_V21, _API_V30):
        raise UnsupportedArgumentError(f"api is {api!r}: give {API_V21!r} or {_API_V30!r}.")
    return api


def episodes_by_number(manifest: Manifest) -> dict[int, dict[str, Any]]:
    """Return what is known about each episode, by its number."""
    table = manifest.episodes
    further = episode_list(manifest).columns()
    return {
        number: {
            "episode_index": number,
            "tasks": list(table.tasks_of(place)),
            "length": int(table.length[place]),
            **{name: column[place] for name, column in further.items()},
        }
        for place, number in enumerate(table.number.tolist())
    }


def episodes_stats(
    manifest: Manifest, stats: Mapping[str, Any]
) -> dict[int, dict[str, dict[str, NDArray[Any]]]]:
    """Return the statistics of each episode; where there are none, those of the dataset.

    Args:
        manifest: The dataset.
        stats: Statistics of the whole dataset, which v2.0 has alone.
    """
    found = {
        number: {name: stats_as_dict(part) for name, part in parts.items()}
        for number, parts in read_episode_stats(manifest)
    }
    return found or {key: dict(stats) for key in manifest.episodes.number.tolist()}


def stats_of_episodes(
    manifest: Manifest, episodes: Sequence[int]
) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the statistics of some episodes together; empty if episodes have none of their own."""
    wanted, parts = set(episodes), dict[str, list[FeatureStats]]()
    for number, stats in read_episode_stats(manifest):
        for name, part in stats.items() if number in wanted else ():
            parts.setdefault(name, []).append(part)
    return {name: stats_as_dict(merge_stats(some)) for name, some in parts.items()}


def stats_as_dict(stats: FeatureStats) -> dict[str, NDArray[Any]]:
    """Return the statistics of a feature under LeRobot's names."""
    return {
        **{key: getattr(stats, key) for key in ("min", "max", "mean", "std")},
        "count": np.atleast_1d(stats.count.max(initial=0)),
        **stats.quantiles,
    }


def episode_data_index(dataset: Dataset, episodes: Sequence[int] | None) -> dict[str, torch.Tensor]:
    """Return the first item of each episode and the one after its last, in the given order."""
    table = dataset.manifest.episodes
    places = slice(None) if episodes is None else table.positions_of(episodes)
    stops = np.cumsum(table.length[places])
    return {
        "from": torch.from_numpy(stops - table.length[places]),
        "to": torch.from_numpy(stops),
    }


def episode_order(view: Dataset, episodes: Sequence[int]) -> NDArray[np.int64]:
    """Return the samples of a view, episode by episode in the given order."""
    table = view.manifest.episodes
    filled = view.selection.positions[table.length[view.selection.positions] > 0]
    by_row = filled[np.argsort(table.start[filled], kind="stable")]
    bounds = view.episode_bounds
    spans = {int(p): (int(bounds[i]), int(bounds[i + 1])) for i, p in enumerate(by_row)}
    parts = [np.arange(*spans[p]) for p in table.positions_of(episodes).tolist() if p in spans]
    return np.concatenate([np.empty(0, np.int64), *parts])
