"""The list of episodes of v2.0 and v2.1, in JSON lines: entries and statistics, read and written.

Statistics are in a file of their own, which v2.0 does not have. They are read as the columns
``stats/<feature>/<key>`` that the episode table of v3.0 has.
"""

from __future__ import annotations

import json
import math
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from roboreel.errors import MetadataError
from roboreel.format.counters import EPISODE_NUMBER, TASK_NUMBER
from roboreel.format.edits import ABSENT, Difference, FileEdit, json_differences
from roboreel.format.episode_list import Entries, EpisodeList, stat_column
from roboreel.format.json_files import write_json_lines
from roboreel.format.paths import EPISODE_LINES_PATH, EPISODE_STATS_PATH
from roboreel.format.stats_json import stats_to_json
from roboreel.parquet.jsonl import index_lines, open_lines, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from roboreel.format.episode_list import Stage, Stats

_OWN = (EPISODE_NUMBER, "tasks", "length")
_STATS_KEYS = ("min", "max", "mean", "std", "count")


class EpisodeLines(EpisodeList):
    """The files of v2.0 and v2.1; v2.0 has no statistics of episodes."""

    def entries(self, is_wanted: Callable[[str], bool]) -> Iterator[Entries]:
        """See `EpisodeList`."""
        path = self.manifest.root / EPISODE_LINES_PATH
        for line, entry in read_lines(path):
            wanted = {name: [value] for name, value in entry.items() if is_wanted(name)}
            yield Entries(f"line {line} of {path}", [entry.get(EPISODE_NUMBER)], wanted)

    def metadata(self) -> dict[int, dict[str, Any]]:
        """See `EpisodeList`."""
        return {
            int(entry[EPISODE_NUMBER]): {n: v for n, v in entry.items() if n not in _OWN}
            for entry in _entries(self.manifest.root / EPISODE_LINES_PATH)
        }

    def statistics(self, features: Collection[str] | None = None) -> Iterator[Entries]:
        """See `EpisodeList`."""
        path = self.manifest.root / EPISODE_STATS_PATH
        for line, entry in read_lines(path) if path.exists() else ():
            where = f"line {line} of {path}"
            number, stats = entry.get(EPISODE_NUMBER), entry.get("stats")
            if not isinstance(number, int) or not isinstance(stats, dict):
                raise MetadataError(f"'episode_index' and 'stats' were expected at {where!r}.")
            columns = _stat_columns(stats, features)
            yield Entries(where, [number], {name: [value] for name, value in columns.items()})

    def statistics_of(self, number: int) -> tuple[str, dict[str, Any]]:
        """See `EpisodeList`."""
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

    def write(
        self,
        stage: Stage,
        metadata: Sequence[Mapping[str, Any]],
        stats: Iterable[Stats],
        *,
        sync: bool = False,
    ) -> None:
        """See `EpisodeList`."""
        episodes = self.manifest.episodes
        numbers, lengths = episodes.number.tolist(), episodes.length.tolist()
        lines = (
            {
                EPISODE_NUMBER: number,
                "tasks": list(episodes.tasks_of(i)),
                "length": lengths[i],
                **said,
            }
            for i, (number, said) in enumerate(zip(numbers, metadata, strict=True))
        )
        write_json_lines(stage(EPISODE_LINES_PATH), lines, sync=sync)
        if self.manifest.version == "v2.1":
            entries = (
                {EPISODE_NUMBER: number, "stats": _stats_entries(of_episode)}
                for number, of_episode in zip(numbers, stats, strict=True)
            )
            write_json_lines(stage(EPISODE_STATS_PATH), entries, sync=sync)

    def corrections(
        self, kinds: Collection[str], episode_stats: Mapping[int, Stats]
    ) -> Iterator[FileEdit]:
        """See `EpisodeList`."""
        root, episodes = self.manifest.root, self.manifest.episodes
        if kinds:
            lengths = dict(zip(episodes.number.tolist(), episodes.length.tolist(), strict=True))
            old = _entries(root / EPISODE_LINES_PATH)
            last = {entry[EPISODE_NUMBER]: entry for entry in old}
            new = [
                {**entry, "length": lengths[entry[EPISODE_NUMBER]]}
                for entry in old
                if last[entry[EPISODE_NUMBER]] is entry
            ]
            yield from _edit(EPISODE_LINES_PATH, old, new)
        if episode_stats:
            path = root / EPISODE_STATS_PATH
            old = _entries(path) if path.exists() else []
            known = {entry[EPISODE_NUMBER]: entry for entry in old}
            for number, stats in episode_stats.items():
                entry = known.get(number, {EPISODE_NUMBER: number, "stats": {}})
                known[number] = {**entry, "stats": {**entry["stats"], **_stats_entries(stats)}}
            yield from _edit(EPISODE_STATS_PATH, old, [known[number] for number in sorted(known)])

    def write_tasks(self, path: Path, tasks: Mapping[int, str], *, sync: bool = False) -> None:
        """See `EpisodeList`."""
        write_json_lines(path, map(_task_line, tasks.items()), sync=sync)

    def append_tasks(self, path: Path, out: Path, tasks: Mapping[int, str]) -> None:
        """See `EpisodeList`."""
        old = _entries(path) if path.exists() else []
        write_json_lines(out, [*old, *map(_task_line, tasks.items())], sync=False)


def _entries(path: Path) -> list[dict[str, Any]]:
    return [entry for _, entry in read_lines(path)]


def _task_line(task: tuple[int, str]) -> dict[str, Any]:
    number, text = task
    return {TASK_NUMBER: number, "task": text}


def _stats_entries(stats: Stats) -> dict[str, dict[str, Any]]:
    """Return the statistics of an episode without quantiles, which v2.1 does not have."""
    entries = {name: stats_to_json(of_feature) for name, of_feature in stats.items()}
    return {name: {key: entry[key] for key in _STATS_KEYS} for name, entry in entries.items()}


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


def _edit(
    file: str, old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]
) -> Iterator[FileEdit]:
    """Yield the edit by which a file has other lines; none if they say the same."""
    last = {entry[EPISODE_NUMBER]: entry for entry in old}
    differences = [
        Difference(f"episode {entry[EPISODE_NUMBER]}, an earlier entry", "listed", ABSENT)
        for entry in old
        if last[entry[EPISODE_NUMBER]] is not entry
    ]
    for entry in new:
        number = entry[EPISODE_NUMBER]
        differences += (
            Difference(f"episode {number}, {value.what}", value.old, value.new)
            for value in json_differences(last.get(number, {}), entry)
        )
    if differences:
        size = sum(len(str(entry)) for entry in new)
        yield FileEdit(file, tuple(differences), partial(_write_lines, new), size)


def _write_lines(lines: Sequence[dict[str, Any]], _root: Path, out: Path) -> None:
    write_json_lines(out, lines)
