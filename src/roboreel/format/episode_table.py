"""What the metadata lists of each episode: one reader for all versions.

Since v3.0 a table of Parquet files has it all. Before, there are two files of JSON lines, one with
the statistics, which are read as the columns ``stats/<feature>/<key>`` that the table has.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import MetadataError
from roboreel.files import walk
from roboreel.format.counters import EPISODE_NUMBER
from roboreel.format.paths import EPISODE_LINES_PATH, EPISODE_STATS_PATH, EPISODES_FOLDER
from roboreel.parquet.jsonl import index_lines, open_lines, read_lines
from roboreel.parquet.parquet_table import open_parquet
from roboreel.parquet.scan import ScannedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Manifest

    Numbers = tuple[NDArray[np.int64], str, NDArray[np.float64]]
    """Numbers of episodes, a column, and its values ``(N, D)``."""

_LEROBOT = (EPISODE_NUMBER, "tasks", "length", "dataset_from_index", "dataset_to_index")
_STATISTICS = "stats/"
_LEROBOT_PREFIXES = ("data/", "videos/", "meta/", _STATISTICS)
_TABLE = re.compile(r"chunk-\d+/file-\d+\.parquet")


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


def stat_column(feature: str, key: str) -> str:
    """Return the column of a statistic of a feature."""
    return f"{_STATISTICS}{feature}/{key}"


def split_stat_column(column: str) -> tuple[str, str]:
    """Return the feature and the key of a column of statistics."""
    feature, _, key = column.removeprefix(_STATISTICS).rpartition("/")
    return feature, key


def episode_files(root: Path) -> list[Path]:
    """Return the files of the episode table, in the order of their numbers."""
    return named_and_ignored_files(root)[0]


def named_and_ignored_files(root: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of the episode table, and tables that are not named as those are."""
    folder = root / EPISODES_FOLDER
    # Names that begin with a dot are files that are being written.
    there = [p for p in walk(folder) if p.suffix == ".parquet" and not p.name.startswith(".")]
    is_named = [_TABLE.fullmatch(path.relative_to(folder).as_posix()) is not None for path in there]
    if not any(is_named):
        return there, []
    pairs = list(zip(there, is_named, strict=True))
    return [path for path, named in pairs if named], [path for path, named in pairs if not named]


def table_rows(files: Collection[Path]) -> dict[int, tuple[Path, int]]:
    """Return file and row of each episode; of one that is listed twice, the last."""
    rows: dict[int, tuple[Path, int]] = {}
    for path in files:
        with open_parquet(path) as table:
            numbers = table.numbers([EPISODE_NUMBER])[EPISODE_NUMBER].astype(np.int64)
        rows |= {number: (path, row) for row, number in enumerate(numbers.tolist())}
    return rows


@dataclass(frozen=True, slots=True)
class Entries:
    """Some entries of the list, in its order."""

    where: str
    """What to name in an error."""
    numbers: list[Any]
    columns: dict[str, list[Any]]


class EpisodeList(ABC):
    """The list of the episodes of a dataset.

    Args:
        manifest: The dataset.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @abstractmethod
    def entries(self, is_wanted: Callable[[str], bool]) -> Iterator[Entries]:
        """Yield the columns that are wanted by name, but for statistics."""

    @abstractmethod
    def statistics(self, features: Collection[str] | None = None) -> Iterator[Entries]:
        """Yield the columns of the statistics of some features; of all by default."""

    @abstractmethod
    def statistics_of(self, number: int) -> tuple[str, dict[str, Any]]:
        """Return the statistics of one episode, by column, and the file that has them.

        Raises:
            MetadataError: They cannot be understood.
        """

    def columns(self, is_wanted: Callable[[str], bool] = is_metadata) -> dict[str, list[Any]]:
        """Return some columns as plain Python values; by default those that LeRobot does not write.

        Returns:
            By column, a value for each episode of the manifest; None where there is none.
        """
        places = {n: place for place, n in enumerate(self.manifest.episodes.number.tolist())}
        columns: dict[str, list[Any]] = {}
        for part in self.entries(is_wanted):
            for name, values in part.columns.items():
                column = columns.setdefault(name, [None] * len(places))
                # Of an episode that is listed twice, the last entry counts.
                for number, value in zip(part.numbers, values, strict=True):
                    if number in places:
                        column[places[number]] = value
        return columns

    def numbers(self, features: Collection[str], keys: Collection[str]) -> Iterator[Numbers]:
        """Yield some columns of statistics as arrays; what is not numbers is left out."""
        wanted = {stat_column(name, key) for name in features for key in keys}
        for part in self.statistics(features):
            for column in wanted & part.columns.keys():
                try:
                    values = np.asarray(part.columns[column], np.float64)
                except (TypeError, ValueError):
                    continue
                yield np.array(part.numbers, np.int64), column, values.reshape(len(values), -1)


def episode_list(manifest: Manifest) -> EpisodeList:
    """Return the list of the episodes of a dataset of any version."""
    return _Tables(manifest) if manifest.version.startswith("v3") else _Lines(manifest)


class _Tables(EpisodeList):
    """The episode table of v3.0."""

    def entries(self, is_wanted: Callable[[str], bool]) -> Iterator[Entries]:
        for path in episode_files(self.manifest.root):
            with open_parquet(path) as table:
                wanted = [name for name in table.column_names if is_wanted(name)]
                if wanted:
                    columns = table.arrays([EPISODE_NUMBER, *wanted])
                    numbers = columns[EPISODE_NUMBER]
                    yield Entries(str(path), numbers, {name: columns[name] for name in wanted})

    def statistics(self, features: Collection[str] | None = None) -> Iterator[Entries]:
        def is_wanted(column: str) -> bool:
            named = features is None or split_stat_column(column)[0] in features
            return is_statistics(column) and named

        return self.entries(is_wanted)

    def statistics_of(self, number: int) -> tuple[str, dict[str, Any]]:
        if number not in self._rows:
            return "", {}
        path, row = self._rows[number]
        with open_parquet(path) as table:
            names = [name for name in table.column_names if is_statistics(name)]
            return str(path), table.row(row, names)

    def numbers(self, features: Collection[str], keys: Collection[str]) -> Iterator[Numbers]:
        # Without Python's numbers: a hundred thousand episodes have millions.
        wanted = [stat_column(name, key) for name in features for key in keys]
        for path in episode_files(self.manifest.root):
            file = ScannedFile(path)
            try:
                there = [column for column in wanted if column in file.column_names]
                columns = file.read(range(len(file.group_bounds) - 1), [EPISODE_NUMBER, *there])
            finally:
                file.close()
            numbers = columns[EPISODE_NUMBER].values
            if numbers is None or not len(numbers):  # Episodes may have been dropped from the file.
                continue
            for column in there:
                values, nulls = columns[column].values, columns[column].nulls
                if values is None:
                    continue
                flat = values.reshape(len(values), -1).astype(np.float64)
                if nulls is not None:
                    flat[nulls] = np.nan
                yield numbers.astype(np.int64), column, flat

    @cached_property
    def _rows(self) -> dict[int, tuple[Path, int]]:
        return table_rows(episode_files(self.manifest.root))


class _Lines(EpisodeList):
    """The files of v2.0 and v2.1; v2.0 has no statistics of episodes."""

    def entries(self, is_wanted: Callable[[str], bool]) -> Iterator[Entries]:
        path = self.manifest.root / EPISODE_LINES_PATH
        for line, entry in read_lines(path):
            wanted = {name: [value] for name, value in entry.items() if is_wanted(name)}
            yield Entries(f"line {line} of {path}", [entry.get(EPISODE_NUMBER)], wanted)

    def statistics(self, features: Collection[str] | None = None) -> Iterator[Entries]:
        path = self.manifest.root / EPISODE_STATS_PATH
        for line, entry in read_lines(path) if path.exists() else ():
            where = f"line {line} of {path}"
            number, stats = entry.get(EPISODE_NUMBER), entry.get("stats")
            if not isinstance(number, int) or not isinstance(stats, dict):
                raise MetadataError(f"'episode_index' and 'stats' were expected at {where!r}.")
            columns = _stat_columns(stats, features)
            yield Entries(where, [number], {name: [value] for name, value in columns.items()})

    def statistics_of(self, number: int) -> tuple[str, dict[str, Any]]:
        path = self.manifest.root / EPISODE_STATS_PATH
        if number not in self._starts:
            return str(path), {}
        with open_lines(path) as file:
            file.seek(self._starts[number])
            line = file.readline()
        try:
            stats = json.loads(line).get("stats")
        except (ValueError, AttributeError, RecursionError) as error:
            raise MetadataError(
                f"The file has changed since it was opened: {str(path)!r}."
            ) from error
        if not isinstance(stats, dict):
            raise MetadataError(
                f"The statistics of episode {number} are not an object: {str(path)!r}."
            )
        return str(path), _stat_columns(stats)

    @cached_property
    def _starts(self) -> dict[int, int]:
        """Where the line of each episode begins; the last one counts."""
        path = self.manifest.root / EPISODE_STATS_PATH
        return index_lines(path, EPISODE_NUMBER) if path.exists() else {}


def _stat_columns(
    stats: Mapping[str, Any], features: Collection[str] | None = None
) -> dict[str, Any]:
    """Return statistics as the columns that the episode table of v3.0 has."""
    columns: dict[str, Any] = {}
    for name, entry in stats.items():
        if features is not None and name not in features:
            continue
        # What is no statistic has a column too, so that whoever reads it complains.
        for key, value in entry.items() if isinstance(entry, dict) and entry else [("", False)]:
            columns[stat_column(name, key)] = math.nan if value is None else value
    return columns
