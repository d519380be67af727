"""The list of the episodes of a dataset: what every layout of it tells, and how it is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.format.counters import EPISODE_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.format.edits import FileEdit
    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

    Numbers = tuple[NDArray[np.int64], str, NDArray[np.float64]]
    """Numbers of episodes, a column, and its values ``(N, D)``."""
    Stage = Callable[[str], Path]
    """Takes a path below the dataset's folder, and returns where to write that file for now."""
    Stats = Mapping[str, FeatureStats]

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


def stat_column(feature: str, key: str) -> str:
    """Return the column of a statistic of a feature."""
    return f"{_STATISTICS}{feature}/{key}"


def split_stat_column(column: str) -> tuple[str, str]:
    """Return the feature and the key of a column of statistics."""
    feature, _, key = column.removeprefix(_STATISTICS).rpartition("/")
    return feature, key


@dataclass(frozen=True, slots=True)
class Entries:
    """Some entries of the list, in its order."""

    where: str
    """What to name in an error."""
    numbers: list[Any]
    columns: dict[str, list[Any]]


class EpisodeList(ABC):
    """The list of the episodes of a dataset, in one layout: its columns, rows and statistics.

    Args:
        manifest: The dataset.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @abstractmethod
    def entries(self, is_wanted: Callable[[str], bool]) -> Iterator[Entries]:
        """Yield the columns that are wanted by name, but for statistics."""

    @abstractmethod
    def metadata(self) -> dict[int, dict[str, Any]]:
        """Return what is said of each episode, by its number, without what LeRobot writes."""

    @abstractmethod
    def statistics(self, features: Collection[str] | None = None) -> Iterator[Entries]:
        """Yield the columns of the statistics of some features; of all by default."""

    @abstractmethod
    def statistics_of(self, number: int) -> tuple[str, dict[str, Any]]:
        """Return the statistics of one episode, by column, and the file that has them.

        Raises:
            MetadataError: They cannot be understood.
        """

    @abstractmethod
    def write(
        self,
        stage: Stage,
        metadata: Sequence[Mapping[str, Any]],
        stats: Iterable[Stats],
        *,
        sync: bool = False,
    ) -> None:
        """Write the list anew.

        Args:
            stage: Where to write each file; called in the order in which they are to appear.
            metadata: What is said of each episode, by column.
            stats: Statistics of each episode, by feature.
            sync: Whether the files must be on the disk when this returns.
        """

    @abstractmethod
    def corrections(
        self, kinds: Collection[str], episode_stats: Mapping[int, Stats]
    ) -> Iterator[FileEdit]:
        """Yield how the files must change to say what the manifest says; other columns stay.

        Each episode stays listed once, by its last entry.

        Args:
            kinds: What changes: ``rows`` (lengths and spans), ``files`` or ``clips``. Before v3.0
                only lengths are listed.
            episode_stats: By number of an episode, the statistics of features that change.
        """

    @abstractmethod
    def write_tasks(self, path: Path, tasks: Mapping[int, str], *, sync: bool = False) -> None:
        """Write the table of tasks."""

    @abstractmethod
    def append_tasks(self, path: Path, out: Path, tasks: Mapping[int, str]) -> None:
        """Write the table of tasks again with further ones; nothing is synced."""

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
