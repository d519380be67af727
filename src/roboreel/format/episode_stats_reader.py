"""The statistics of single episodes, each read when asked for."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roboreel.errors import MetadataError
from roboreel.format.counters import EPISODE_NUMBER
from roboreel.format.episode_columns import is_statistics
from roboreel.format.lerobot_v3 import episode_files
from roboreel.format.paths import EPISODE_STATS_PATH
from roboreel.format.statistics import stats_from_columns, stats_from_json
from roboreel.storage.jsonl import index_lines, open_lines
from roboreel.storage.parquet_table import open_parquet

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

__all__ = ["EpisodeStatsReader"]


class EpisodeStatsReader:
    """Finds the statistics of an episode without reading those of all others.

    Args:
        manifest: The dataset.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def read(self, number: int) -> dict[str, FeatureStats]:
        """Return the statistics of the episode with this number; empty if there are none.

        Raises:
            MetadataError: They cannot be understood.
        """
        if self._manifest.version.startswith("v3"):
            return self._from_table(number)
        return self._from_line(number)

    def _from_table(self, number: int) -> dict[str, FeatureStats]:
        if number not in self._rows:
            return {}
        path, row = self._rows[number]
        with open_parquet(path) as table:
            values = table.row(row, [name for name in table.column_names if is_statistics(name)])
        return stats_from_columns(values, str(path))

    def _from_line(self, number: int) -> dict[str, FeatureStats]:
        if number not in self._lines:
            return {}
        path = self._manifest.root / EPISODE_STATS_PATH
        with open_lines(path) as file:
            file.seek(self._lines[number])
            stats = _stats_of(file.readline(), path)
        if not isinstance(stats, dict):
            raise MetadataError(
                f"The statistics of episode {number} are not an object: {str(path)!r}."
            )
        return {name: stats_from_json(name, entry, str(path)) for name, entry in stats.items()}

    @cached_property
    def _rows(self) -> dict[int, tuple[Path, int]]:
        """File and row of each episode in the episode table; the last one counts."""
        places: dict[int, tuple[Path, int]] = {}
        for path in episode_files(self._manifest.root):
            with open_parquet(path) as table:
                numbers = table.numbers([EPISODE_NUMBER])[EPISODE_NUMBER]
            places |= {int(number): (path, row) for row, number in enumerate(numbers.tolist())}
        return places

    @cached_property
    def _lines(self) -> dict[int, int]:
        """Where the line of each episode begins; the last one counts."""
        path = self._manifest.root / EPISODE_STATS_PATH
        return index_lines(path, EPISODE_NUMBER) if path.exists() else {}


def _stats_of(line: bytes, path: Path) -> Any:  # noqa: ANN401  # checked by the caller
    try:
        return json.loads(line).get("stats")
    except (ValueError, AttributeError, RecursionError) as error:
        raise MetadataError(f"The file has changed since it was opened: {str(path)!r}.") from error
