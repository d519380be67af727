"""Corrections of the files that list episodes, value by value; unknown columns and keys stay."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.format.counters import EPISODE_NUMBER
from roboreel.format.edits import ABSENT, Difference, FileEdit, json_differences
from roboreel.format.episode_table import episode_files, stat_column, table_rows
from roboreel.format.json_files import write_json_lines
from roboreel.format.paths import EPISODE_LINES_PATH, EPISODE_STATS_PATH
from roboreel.format.statistics import stats_to_json
from roboreel.format.write_v3 import located_columns
from roboreel.parquet.jsonl import read_lines
from roboreel.parquet.parquet_table import open_parquet
from roboreel.parquet.rewrite import rewrite_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

    EpisodeStats = Mapping[int, Mapping[str, FeatureStats]]


def edit_episodes(
    manifest: Manifest, kinds: Collection[str], episode_stats: EpisodeStats
) -> list[FileEdit]:
    """Return how the files that list episodes must change to say what a manifest says.

    Each episode stays listed once, by its last entry.

    Args:
        manifest: The dataset as it should be described.
        kinds: What changes: ``rows`` (lengths and spans), ``files`` or ``clips``. Before v3.0 only
            lengths are listed.
        episode_stats: By number of an episode, the statistics of features that change; v2.1 has
            them in a file of their own.
    """
    if manifest.version.startswith("v3"):
        columns = located_columns(manifest)
        wanted = {name: column for kind in kinds for name, column in columns[kind].items()}
        return list(_edit_tables(manifest, wanted, episode_stats))
    edit = _edit_lines(manifest)
    return [] if edit is None else [edit]


def edit_episode_stats(manifest: Manifest, episode_stats: EpisodeStats) -> FileEdit | None:
    """Return how the file of statistics by episode of v2.1 must change; None if not at all."""
    path = manifest.root / EPISODE_STATS_PATH
    old = [entry for _, entry in read_lines(path)] if path.exists() else []
    new = {entry[EPISODE_NUMBER]: entry for entry in old}
    for number, stats in episode_stats.items():
        entry = new.get(number, {EPISODE_NUMBER: number, "stats": {}})
        entries = {name: stats_to_json(one) for name, one in stats.items()}
        new[number] = {**entry, "stats": {**entry["stats"], **entries}}
    return _edit_json_lines(EPISODE_STATS_PATH, old, [new[number] for number in sorted(new)])


def _edit_lines(manifest: Manifest) -> FileEdit | None:
    old = [entry for _, entry in read_lines(manifest.root / EPISODE_LINES_PATH)]
    last = {entry[EPISODE_NUMBER]: place for place, entry in enumerate(old)}
    lengths = dict(
        zip(manifest.episodes.number.tolist(), manifest.episodes.length.tolist(), strict=True)
    )
    new = [
        {**entry, "length": lengths[entry[EPISODE_NUMBER]]}
        for place, entry in enumerate(old)
        if last[entry[EPISODE_NUMBER]] == place
    ]
    return _edit_json_lines(EPISODE_LINES_PATH, old, new)


def _edit_json_lines(
    file: str, old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]
) -> FileEdit | None:
    before = {entry[EPISODE_NUMBER]: entry for entry in old}
    differences = [_goes(number) for number in _repeated([e[EPISODE_NUMBER] for e in old])]
    for entry in new:
        number = entry[EPISODE_NUMBER]
        differences += (
            Difference(f"episode {number}, {one.what}", one.old, one.new)
            for one in json_differences(before.get(number, {}), entry)
        )
    if not differences:
        return None
    size = sum(len(str(entry)) for entry in new)
    return FileEdit(file, tuple(differences), partial(_write_lines, new), size)


def _edit_tables(
    manifest: Manifest, wanted: Mapping[str, NDArray[Any]], episode_stats: EpisodeStats
) -> Iterator[FileEdit]:
    root = manifest.root
    paths = episode_files(root)
    last = table_rows(paths)
    for path in paths:
        with open_parquet(path) as table:
            numbers = table.numbers([EPISODE_NUMBER])[EPISODE_NUMBER].astype(np.int64)
        kept = np.array(
            [row for row, n in enumerate(numbers.tolist()) if last[n] == (path, row)], np.int64
        )
        if not len(kept):
            continue  # an empty table, or one that a later one repeats
        positions = manifest.episodes.positions_of(numbers[kept])
        located = {name: column[positions].tolist() for name, column in wanted.items()}
        columns, differences = _changes(path, numbers[kept], kept, located, episode_stats)
        differences[:0] = [_goes(int(n)) for n in np.delete(numbers, kept)]
        if differences:
            write = partial(_rewrite, path.relative_to(root).as_posix(), columns, kept)
            size = path.stat().st_size
            yield FileEdit(path.relative_to(root).as_posix(), tuple(differences), write, size)


def _changes(
    path: Path,
    numbers: NDArray[np.int64],
    rows: NDArray[np.int64],
    located: Mapping[str, list[Any]],
    episode_stats: EpisodeStats,
) -> tuple[dict[str, list[Any]], list[Difference]]:
    """Return the columns of a table that change, and where."""
    columns: dict[str, list[Any]] = {}
    differences: list[Difference] = []
    with open_parquet(path) as table:
        stats = _stats_values(numbers, episode_stats, table.column_names)
        for name in [*located, *stats]:
            there = name in table.column_names
            stored = table.arrays([name])[name] if there else [ABSENT] * (int(rows.max()) + 1)
            old = [stored[row] for row in rows.tolist()]
            new = located.get(name) or [stats[name].get(i, old[i]) for i in range(len(rows))]
            found = [
                Difference(f"episode {numbers[i]}, {name}", old[i], new[i])
                for i in range(len(rows))
                if not _is_same(old[i], new[i])
            ]
            if found:
                columns[name] = new
                differences += found
    return columns, differences


def _stats_values(
    numbers: NDArray[np.int64], episode_stats: EpisodeStats, there: Sequence[str]
) -> dict[str, dict[int, Any]]:
    """Return new values of the columns of statistics that a table has, by place of the episode."""
    values: dict[str, dict[int, Any]] = {}
    for place, number in enumerate(numbers.tolist()):
        for feature, stats in episode_stats.get(number, {}).items():
            for key, value in stats_to_json(stats).items():
                name = stat_column(feature, key)
                if name in there:
                    values.setdefault(name, {})[place] = value
    return values


def _is_same(old: object, new: object) -> bool:
    if isinstance(new, float) and np.isnan(new):
        return old is None or (isinstance(old, float) and np.isnan(old))
    # A list of one stands for the number alone, which some writers store.
    return old is not ABSENT and old in (new, new[0] if isinstance(new, list) and new else new)


def _repeated(numbers: Sequence[int]) -> list[int]:
    last = {number: place for place, number in enumerate(numbers)}
    return [number for place, number in enumerate(numbers) if last[number] != place]


def _goes(number: int) -> Difference:
    return Difference(f"episode {number}, an earlier entry", "listed", ABSENT)


def _write_lines(lines: Sequence[dict[str, Any]], _root: Path, out: Path) -> None:
    write_json_lines(out, lines)


def _rewrite(
    file: str, columns: Mapping[str, list[Any]], rows: NDArray[np.int64], root: Path, out: Path
) -> None:
    rewrite_rows(root / file, out, columns=columns, rows=rows)
