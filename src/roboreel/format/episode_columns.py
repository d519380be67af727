"""What the metadata says of each episode beyond where it lies, such as its success."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.format.counters import EPISODE_NUMBER
from roboreel.format.lerobot_v3 import episode_files
from roboreel.format.paths import EPISODE_LINES_PATH
from roboreel.storage.jsonl import read_lines
from roboreel.storage.parquet_table import open_parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roboreel.schema import Manifest

__all__ = ["is_metadata", "is_statistics", "read_episode_columns"]

_LEROBOT = (EPISODE_NUMBER, "tasks", "length", "dataset_from_index", "dataset_to_index")
_STATISTICS = "stats/"
_LEROBOT_PREFIXES = ("data/", "videos/", "meta/", _STATISTICS)


def is_metadata(column: str) -> bool:
    """Return whether a column of the episode table is not one that LeRobot itself writes.

    Examples:
        >>> is_metadata("success"), is_metadata("stats/action/mean"), is_metadata("length")
        (True, False, False)
    """
    return column not in _LEROBOT and not column.startswith(_LEROBOT_PREFIXES)


def is_statistics(column: str) -> bool:
    """Return whether a column of the episode table is a statistic of a feature."""
    return column.startswith(_STATISTICS)


def read_episode_columns(
    manifest: Manifest, is_wanted: Callable[[str], bool] = is_metadata
) -> dict[str, list[Any]]:
    """Return some columns of the episode table as plain Python values.

    Args:
        manifest: The dataset.
        is_wanted: Which columns to read, by name; by default those that LeRobot does not write.

    Returns:
        By column, a value for each episode of the manifest; None where there is none.
    """
    parts = _from_tables if manifest.version.startswith("v3") else _from_lines
    places = {number: place for place, number in enumerate(manifest.episodes.number.tolist())}
    columns: dict[str, list[Any]] = {}
    for numbers, part in parts(manifest, is_wanted):
        for name, values in part.items():
            column = columns.setdefault(name, [None] * len(places))
            # Of an episode that is listed twice, the last entry counts.
            for number, value in zip(numbers, values, strict=True):
                if number in places:
                    column[places[number]] = value
    return columns


def _from_tables(
    manifest: Manifest, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[list[Any], dict[str, list[Any]]]]:
    for path in episode_files(manifest.root):
        with open_parquet(path) as table:
            wanted = [name for name in table.column_names if is_wanted(name)]
            if wanted:
                columns = table.arrays([EPISODE_NUMBER, *wanted])
                yield columns[EPISODE_NUMBER], {name: columns[name] for name in wanted}


def _from_lines(
    manifest: Manifest, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[list[Any], dict[str, list[Any]]]]:
    for _, entry in read_lines(manifest.root / EPISODE_LINES_PATH):
        wanted = {name: [value] for name, value in entry.items() if is_wanted(name)}
        yield [entry.get(EPISODE_NUMBER)], wanted
