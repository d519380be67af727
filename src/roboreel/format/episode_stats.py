"""The statistics of all episodes as columns, quick to compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.format.counters import EPISODE_NUMBER
from roboreel.format.lerobot_v3 import episode_files
from roboreel.format.paths import EPISODE_STATS_PATH
from roboreel.storage.jsonl import read_lines
from roboreel.storage.scan import ScannedFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.schema import Manifest

__all__ = ["EpisodeStatColumns", "read_episode_stat_columns"]

_KEYS = ("min", "max", "mean", "std")


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
    """Return the statistics that the metadata has of each episode, by feature.

    What is not numbers, or has another shape in another episode, is left out.

    Raises:
        CorruptFileError: A file cannot be read.
    """
    parts = (
        _from_tables(manifest, features)
        if manifest.version.startswith("v3")
        else _from_lines(manifest, features)
    )
    count = len(manifest.episodes)
    columns: dict[tuple[str, str], NDArray[np.float64]] = {}
    odd: set[str] = set()
    for positions, name, key, values in parts:
        column = columns.setdefault((name, key), np.full((count, values.shape[1]), np.nan))
        if column.shape[1] == values.shape[1]:
            column[positions] = values
        else:
            odd.add(name)
    names = dict.fromkeys(name for name, _ in columns)
    return {
        name: EpisodeStatColumns(*(columns[name, key] for key in _KEYS))
        for name in names
        if name not in odd and _are_alike([columns.get((name, key)) for key in _KEYS])
    }


def _are_alike(columns: list[NDArray[np.float64] | None]) -> bool:
    return len({None if column is None else column.shape for column in columns} | {None}) == 2 and (
        all(column is not None for column in columns)
    )


def _from_tables(
    manifest: Manifest, features: Collection[str]
) -> Iterator[tuple[NDArray[np.int64], str, str, NDArray[np.float64]]]:
    for path in episode_files(manifest.root):
        file = ScannedFile(path)
        try:
            wanted = {f"stats/{name}/{key}": (name, key) for name in features for key in _KEYS}
            there = [column for column in wanted if column in file.column_names]
            columns = file.read(range(len(file.group_bounds) - 1), [EPISODE_NUMBER, *there])
        finally:
            file.close()
        numbers = columns[EPISODE_NUMBER].values
        if numbers is None or not len(numbers):  # Episodes may have been dropped from the file.
            continue
        positions, listed = _positions(manifest, numbers.astype(np.int64))
        for column in there:
            values, nulls = columns[column].values, columns[column].nulls
            if values is None:
                continue
            flat = values.reshape(len(values), -1).astype(np.float64)
            if nulls is not None:
                flat[nulls] = np.nan
            yield (positions, *wanted[column], flat[listed])


def _from_lines(
    manifest: Manifest, features: Collection[str]
) -> Iterator[tuple[NDArray[np.int64], str, str, NDArray[np.float64]]]:
    path = manifest.root / EPISODE_STATS_PATH
    if not path.exists():
        return
    for line, entry in read_lines(path):
        number, stats = entry.get(EPISODE_NUMBER), entry.get("stats")
        if not isinstance(number, int) or not isinstance(stats, dict):
            raise CorruptFileError(f"Line {line} needs 'episode_index' and 'stats': {str(path)!r}.")
        positions, listed = _positions(manifest, np.array([number]))
        if listed.any():
            yield from ((positions, *values) for values in _of_line(stats, features))


def _of_line(
    stats: Mapping[str, Any], features: Collection[str]
) -> Iterator[tuple[str, str, NDArray[np.float64]]]:
    for name in features:
        entry = stats.get(name)
        if not isinstance(entry, dict):
            continue
        for key in _KEYS:
            try:
                yield name, key, np.asarray(entry[key], np.float64).reshape(1, -1)
            except (KeyError, TypeError, ValueError):  # noqa: PERF203  # no numbers: left out
                continue


def _positions(
    manifest: Manifest, numbers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the positions of those episodes that the dataset has, and which these are."""
    known = manifest.episodes.number
    found = np.searchsorted(known, numbers)
    listed = found < len(known)
    listed[listed] = known[found[listed]] == numbers[listed]
    return found[listed].astype(np.int64), listed
