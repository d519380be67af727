"""The list of episodes of a dataset that is made from others; unknown columns and keys stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.format.counters import EPISODE_NUMBER
from roboreel.format.episode_table import episode_files, episode_list, stat_column, table_rows
from roboreel.format.json_files import write_json_lines
from roboreel.format.paths import EPISODE_LINES_PATH, EPISODE_STATS_PATH
from roboreel.format.places import episodes_path, following, place_of
from roboreel.format.statistics import read_episode_stats, stats_to_json
from roboreel.format.write_v3 import place_columns, write_episodes
from roboreel.parquet.jsonl import read_lines
from roboreel.parquet.row_stream import TablePart, open_rows, read_layout, write_parts
from roboreel.parquet.to_arrow import from_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from roboreel.parquet.row_stream import Layout
    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

    Names = Mapping[str, str | None]
    Stage = Callable[[str], Path]

_V21_KEYS = ("min", "max", "mean", "std", "count")
_KINDS = {bool: "bool", int: "int64", float: "double", str: "string"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a new episode comes from, and what is new about it."""

    source: int
    number: int
    """The number that it has there."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """What the metadata says of it from now on, by column; None for nothing."""
    stats: Mapping[str, FeatureStats] = field(default_factory=dict)
    """Statistics that are new, by the new name of the feature."""


@dataclass(frozen=True, slots=True, eq=False)
class EditedEpisodes:
    """The episodes of a new dataset, and those that they come from."""

    manifest: Manifest
    """The new dataset."""
    sources: Sequence[Manifest]
    origins: Sequence[Origin]
    """In the order of the new numbers."""
    names: Sequence[Names]
    """For each source, new names of features by old name; None for one that goes."""
    camera_stats: Callable[[], Sequence[Mapping[int, Mapping[str, FeatureStats]]]]
    """Returns the statistics of the cameras of each source, by number of the episode."""
    in_place: bool = False
    """Whether the files of the first source are replaced."""


def write_edited_episodes(edited: EditedEpisodes, stage: Stage) -> None:
    """Write the files that list the episodes of a new dataset; nothing is synced.

    Args:
        edited: The episodes.
        stage: Where to write each file; called in the order in which they are to appear.
    """
    if not edited.manifest.version.startswith("v3"):
        _write_lines(edited, stage)
    elif all(source.version.startswith("v3") for source in edited.sources):
        _write_tables(edited, stage)
    else:
        _write_table(edited, stage)


def _write_tables(edited: EditedEpisodes, stage: Stage) -> None:
    """Write the files of the episode table, one for each old one that still has episodes."""
    files = [(s, path) for s, m in enumerate(edited.sources) for path in episode_files(m.root)]
    columns = {name: value for one in edited.origins for name, value in one.columns.items()}
    layout = _layout(edited, files, columns)
    rows_of = [table_rows(episode_files(manifest.root)) for manifest in edited.sources]
    news: dict[tuple[int, Path], list[tuple[int, int]]] = {}
    for new, origin in enumerate(edited.origins):
        path, row = rows_of[origin.source][origin.number]
        news.setdefault((origin.source, path), []).append((row, new))
    place = (0, -1)
    for source, path in files:
        listed = news.get((source, path))
        if not listed:
            continue
        own = place_of(path)
        place = own if edited.in_place else following(place, edited.manifest.files_per_chunk)
        with open_rows(path) as rows:
            table = rows.take(0, rows.num_rows).take(
                from_numpy(np.array([row for row, _ in listed], np.int64))
            )
        part = _table_part(edited, source, table, [new for _, new in listed], place, layout)
        target = path.relative_to(edited.sources[0].root).as_posix() if edited.in_place else None
        write_parts(stage(target or episodes_path(place)), _in_groups(part), layout)


def _in_groups(part: TablePart, rows: int = 1000) -> Iterator[TablePart]:
    """Yield the rows of a table in pieces, each of which becomes a row group."""
    for start in range(0, part.table.num_rows, rows):
        columns = {name: values[start : start + rows] for name, values in part.columns.items()}
        yield TablePart(part.table.slice(start, rows), columns, part.names)


def _layout(
    edited: EditedEpisodes, files: Sequence[tuple[int, Path]], columns: Mapping[str, Any]
) -> Layout:
    """Return the columns of the new table: all that any of the old ones has, and new ones."""
    layout: Layout | None = None
    for source, path in files:
        found = read_layout(path)
        found = found.renamed(_column_names(found.names, edited.names[source]))
        layout = found if layout is None else layout.joined(found)
    if layout is None:
        raise ValueError("There is no episode table.")
    kinds = {}
    for name, value in columns.items():
        given = [one.columns.get(name) for one in edited.origins]
        known = next((type(one) for one in given if one is not None), type(value))
        kinds[name] = _KINDS.get(known, "string")
    return layout.added(kinds)


def _column_names(columns: Sequence[str], names: Names) -> dict[str, str | None]:
    """Return the new names of the columns of features, by old name."""
    found: dict[str, str | None] = {}
    for column in columns:
        parts = column.split("/")
        if parts[0] not in ("videos", "stats") or len(parts) < 3:
            continue
        feature = "/".join(parts[1:-1])
        if feature in names:
            new = names[feature]
            found[column] = None if new is None else f"{parts[0]}/{new}/{parts[-1]}"
    return found


def _table_part(
    edited: EditedEpisodes,
    source: int,
    table: Any,  # noqa: ANN401  # pyarrow is untyped
    new: list[int],
    place: tuple[int, int],
    layout: Layout,
) -> TablePart:
    episodes, part = edited.manifest.episodes, np.array(new, np.int64)
    columns: dict[str, Any] = {
        EPISODE_NUMBER: part,
        "tasks": [list(episodes.tasks_of(number)) for number in new],
        "length": episodes.length[part],
        "dataset_from_index": episodes.start[part],
        "dataset_to_index": (episodes.start + episodes.length)[part],
        **place_columns(edited.manifest, place, part),
    }
    names = _column_names(table.column_names, edited.names[source])
    old = {names.get(column, column): column for column in table.column_names}

    def stored(name: str) -> list[Any]:
        return table.column(old[name]).to_pylist() if name in old else [None] * len(new)

    known = set(layout.names)
    for row, number in enumerate(new):
        origin = edited.origins[number]
        changed = dict(origin.columns) | _stats_columns(origin.stats)
        for name in changed.keys() & known:
            if name not in columns:
                columns[name] = stored(name)
            columns[name][row] = changed[name]
    return TablePart(table, {n: c for n, c in columns.items() if n in known}, names)


def _stats_columns(stats: Mapping[str, FeatureStats]) -> dict[str, Any]:
    return {
        stat_column(name, key): value
        for name, one in stats.items()
        for key, value in stats_to_json(one).items()
    }


def _write_table(edited: EditedEpisodes, stage: Stage) -> None:
    """Write an episode table where there was none."""
    columns = _joined_columns(edited)
    stats = list(_joined_stats(edited))
    common = set.intersection(*(set(one) for one in stats)) if stats else set()
    quantiles = {
        name: set.intersection(*(set(one[name].quantiles) for one in stats)) for name in common
    }
    shared = [
        {name: _with_quantiles(one[name], quantiles[name]) for name in one if name in common}
        for one in stats
    ]
    write_episodes(
        stage(episodes_path((0, 0))),
        edited.manifest,
        place=(0, 0),
        episode_stats=shared,
        metadata=columns,
        sync=False,
    )


def _with_quantiles(stats: FeatureStats, keys: set[str]) -> FeatureStats:
    """Return statistics with those quantiles alone that every episode has."""
    if keys == stats.quantiles.keys():
        return stats
    kept = {name: values for name, values in stats.quantiles.items() if name in keys}
    return type(stats)(stats.min, stats.max, stats.mean, stats.std, stats.count, quantiles=kept)


def _joined_columns(edited: EditedEpisodes) -> dict[str, list[Any]]:
    """Return what the metadata says of each new episode."""
    said = [episode_list(manifest).columns() for manifest in edited.sources]
    names = dict.fromkeys(name for columns in said for name in columns)
    names |= {name: None for one in edited.origins for name in one.columns}
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for origin in edited.origins:
        position = int(edited.sources[origin.source].episodes.positions_of([origin.number])[0])
        for name, column in columns.items():
            old = said[origin.source].get(name)
            column.append(origin.columns.get(name, None if old is None else old[position]))
    return columns


def _joined_stats(edited: EditedEpisodes) -> Iterator[dict[str, FeatureStats]]:
    """Yield the statistics of each new episode, by the new names of the features."""
    told = (
        set.intersection(*(set(one.stats) for one in edited.origins)) if edited.origins else set()
    )
    stored = [_stored_stats(edited, source, told) for source in range(len(edited.sources))]
    for origin in edited.origins:
        names = edited.names[origin.source]
        old = stored[origin.source].get(origin.number, {})
        named = {names.get(name, name): one for name, one in old.items()}
        known = {name: one for name, one in named.items() if name in edited.manifest.features}
        yield {**known, **origin.stats}  # type: ignore[dict-item]  # None is no feature


def _stored_stats(
    edited: EditedEpisodes, source: int, told: set[str]
) -> Mapping[int, Mapping[str, FeatureStats]]:
    """Return the statistics of a source, of the features for which not every episode has new ones."""
    manifest, names = edited.sources[source], edited.names[source]
    untold = [name for name in manifest.features if names.get(name, name) not in told]
    if all(manifest.features[name].is_camera for name in untold):
        return edited.camera_stats()[source]
    return dict(read_episode_stats(manifest, untold))


def _write_lines(edited: EditedEpisodes, stage: Stage) -> None:
    episodes = edited.manifest.episodes
    lines = (
        {
            **old,
            EPISODE_NUMBER: new,
            "tasks": list(episodes.tasks_of(new)),
            "length": int(episodes.length[new]),
            **edited.origins[new].columns,
        }
        for new, old in enumerate(_old_lines(edited))
    )
    write_json_lines(stage(EPISODE_LINES_PATH), lines, sync=False)
    if edited.manifest.version != "v2.1":
        return
    entries = (
        {EPISODE_NUMBER: new, "stats": {name: _v21(one) for name, one in stats.items()}}
        for new, stats in enumerate(_joined_stats(edited))
    )
    write_json_lines(stage(EPISODE_STATS_PATH), entries, sync=False)


def _old_lines(edited: EditedEpisodes) -> Iterator[dict[str, Any]]:
    """Yield what the list of its source says of each new episode."""
    said: list[dict[int, dict[str, Any]]] = []
    for manifest in edited.sources:
        if manifest.version.startswith("v3"):
            columns = episode_list(manifest).columns()
            numbers = manifest.episodes.number.tolist()
            entries = {
                number: {n: c[i] for n, c in columns.items() if c[i] is not None}
                for i, number in enumerate(numbers)
            }
        else:
            lines = read_lines(manifest.root / EPISODE_LINES_PATH)
            entries = {int(entry[EPISODE_NUMBER]): entry for _, entry in lines}
        said.append(entries)
    return (dict(said[one.source][one.number]) for one in edited.origins)


def _v21(stats: FeatureStats) -> dict[str, Any]:
    entry = stats_to_json(stats)
    return {key: entry[key] for key in _V21_KEYS}
