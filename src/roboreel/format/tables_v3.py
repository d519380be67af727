"""The episode table of v3.0, in Parquet files: columns, statistics and rows, read and written.

The tables of tasks and subtasks, which look alike, are here too.
"""

from __future__ import annotations

import json
import re
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.files import walk
from roboreel.format.counters import EPISODE_NUMBER, TASK_NUMBER
from roboreel.format.edits import ABSENT, Difference, FileEdit
from roboreel.format.episode_list import (
    Entries,
    EpisodeList,
    is_metadata,
    is_statistics,
    split_stat_column,
    stat_column,
)
from roboreel.format.paths import EPISODES_FOLDER
from roboreel.format.places import episodes_path, following, place_of
from roboreel.format.stats_json import stats_to_columns, stats_to_json
from roboreel.parquet.parquet_table import open_parquet
from roboreel.parquet.ragged import TextLists
from roboreel.parquet.rewrite import append_rows, rewrite_rows
from roboreel.parquet.row_stream import TablePart, open_rows, read_layout, write_parts
from roboreel.parquet.scan import ScannedFile
from roboreel.parquet.to_arrow import from_numpy
from roboreel.parquet.writing import add_null_columns, write_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.format.edited_episodes import EditedEpisodes, Names
    from roboreel.format.episode_list import Numbers, Stage, Stats
    from roboreel.format.places import Place
    from roboreel.parquet.row_stream import Layout
    from roboreel.schema import FileSet, Manifest

_TABLE = re.compile(r"chunk-\d+/file-\d+\.parquet")
_NUMBERS = ("chunk_index", "file_index")
_SPANS = ("length", "dataset_from_index", "dataset_to_index")
_ARROW_NAMES = {bool: "bool", int: "int64", float: "double"}
_GROUP_ROWS = 1000


def episode_files(root: Path) -> list[Path]:
    """Return the files of the episode table, in the order of their numbers."""
    return named_and_ignored_files(root)[0]


def named_and_ignored_files(root: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of the episode table, and tables that are not named as those are."""
    folder = root / EPISODES_FOLDER
    # Names that begin with a dot are files that are being written.
    there = [p for p in walk(folder) if p.suffix == ".parquet" and not p.name.startswith(".")]
    named = [p for p in there if _TABLE.fullmatch(p.relative_to(folder).as_posix())]
    return (named, [p for p in there if p not in set(named)]) if named else (there, [])


class EpisodeTables(EpisodeList):
    """The episode table of v3.0."""

    def entries(self, is_wanted: Callable[[str], bool]) -> Iterator[Entries]:
        """See `EpisodeList`."""
        for path in episode_files(self.manifest.root):
            with open_parquet(path) as table:
                wanted = [name for name in table.column_names if is_wanted(name)]
                if wanted:
                    columns = table.arrays([EPISODE_NUMBER, *wanted])
                    numbers = columns[EPISODE_NUMBER]
                    yield Entries(str(path), numbers, {name: columns[name] for name in wanted})

    def metadata(self) -> dict[int, dict[str, Any]]:
        """See `EpisodeList`."""
        columns = self.columns(is_metadata)
        return {
            number: {name: c[i] for name, c in columns.items() if c[i] is not None}
            for i, number in enumerate(self.manifest.episodes.number.tolist())
        }

    def statistics(self, features: Collection[str] | None = None) -> Iterator[Entries]:
        """See `EpisodeList`."""

        def is_wanted(column: str) -> bool:
            named = features is None or split_stat_column(column)[0] in features
            return is_statistics(column) and named

        return self.entries(is_wanted)

    def statistics_of(self, number: int) -> tuple[str, dict[str, Any]]:
        """See `EpisodeList`."""
        if number not in self.rows:
            return "", {}
        path, row = self.rows[number]
        with open_parquet(path) as table:
            names = [name for name in table.column_names if is_statistics(name)]
            return str(path), table.row(row, names)

    def numbers(self, features: Collection[str], keys: Collection[str]) -> Iterator[Numbers]:
        # Without Python's numbers: a hundred thousand episodes have millions.
        """See `EpisodeList`."""
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
    def rows(self) -> dict[int, tuple[Path, int]]:
        """File and row of each episode; of one that is listed twice, the last."""
        rows: dict[int, tuple[Path, int]] = {}
        for path in episode_files(self.manifest.root):
            rows |= {number: (path, row) for row, number in enumerate(_numbers_in(path).tolist())}
        return rows

    def write(
        self,
        stage: Stage,
        metadata: Sequence[Mapping[str, Any]],
        stats: Iterable[Stats],
        *,
        sync: bool = False,
    ) -> None:
        """See `EpisodeList`."""
        path, said = stage(episodes_path((0, 0))), metadata_columns(metadata)
        write_episodes(path, self.manifest, stats=list(stats), metadata=said, sync=sync)

    def corrections(
        self, kinds: Collection[str], episode_stats: Mapping[int, Stats]
    ) -> Iterator[FileEdit]:
        """See `EpisodeList`."""
        episodes = self.manifest.episodes
        columns = episode_columns(self.manifest, (0, 0), np.arange(len(episodes)))
        located = {n: c for n, c in columns.items() if self._kind(n) in kinds}
        for path in episode_files(self.manifest.root):
            numbers = _numbers_in(path)
            is_last = [self.rows[n] == (path, row) for row, n in enumerate(numbers.tolist())]
            rows = np.flatnonzero(is_last)
            if not len(rows):
                continue  # an empty table, or one that a later one repeats
            positions = episodes.positions_of(numbers[rows])
            new = {n: dict(enumerate(c[positions].tolist())) for n, c in located.items()}
            changed, differences = _changes(path, numbers[rows], rows, new, episode_stats)
            gone = [_gone(int(n)) for n in np.delete(numbers, rows)]
            if gone or differences:
                file = path.relative_to(self.manifest.root).as_posix()
                write = partial(_rewrite, file, changed, rows)
                yield FileEdit(file, (*gone, *differences), write, path.stat().st_size)

    def _kind(self, column: str) -> str | None:
        """Return the kind of a column that says what an episode has; None for other columns."""
        if column in _SPANS:
            return "rows"
        if column.startswith("data/"):
            return "files"
        camera, _, field = column.removeprefix("videos/").rpartition("/")
        has_files = bool(len(self.manifest.video_files.get(camera, ())))
        return "clips" if has_files and field.endswith("_timestamp") else None

    def write_tasks(self, path: Path, tasks: Mapping[int, str], *, sync: bool = False) -> None:
        """See `EpisodeList`."""
        write_texts(path, tasks, "task", sync=sync)

    def append_tasks(self, path: Path, out: Path, tasks: Mapping[int, str]) -> None:
        """See `EpisodeList`."""
        if path.exists():
            with open_parquet(path) as table:
                column = "task" if "task" in table.column_names else "__index_level_0__"
            append_rows(path, out, [{TASK_NUMBER: n, column: text} for n, text in tasks.items()])
        else:
            self.write_tasks(out, tasks)


def metadata_columns(metadata: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return what is said of some episodes as columns, None where nothing is said of one."""
    names = dict.fromkeys(name for said in metadata for name in said)
    return {name: [said.get(name) for said in metadata] for name in names}


def stage_columns(
    root: Path, metadata: Sequence[Mapping[str, Any]], there: Mapping[str, type], stage: Stage
) -> Path:
    """Give the files of the episode table the columns that they lack, as nulls.

    LeRobot takes the columns from the first file, and refuses files that have more. So the files
    change in the order of their names: at any moment the first one has all columns.

    Args:
        root: The dataset's folder.
        metadata: What is said of each of the next episodes.
        there: The types of the columns that there are.
        stage: Where to write each file.

    Returns:
        A file with the columns that the next one must have.
    """
    given = {name: type(value) for said in metadata for name, value in said.items()}
    lacking = {n: kind for n, kind in given.items() if there.get(n, type(None)) is type(None)}
    files = episode_files(root)
    last = files[-1]
    for path in files if lacking else ():
        last = stage(path.relative_to(root).as_posix())
        add_null_columns(path, last, lacking)
    return last


def write_episodes(
    path: Path,
    manifest: Manifest,
    *,
    place: Place = (0, 0),
    stats: Sequence[Stats] = (),
    metadata: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    like: Path | None = None,
    sync: bool = False,
) -> None:
    """Write a file of the episode table.

    Args:
        path: Where to write.
        manifest: The dataset, or as much of it as this file lists.
        place: Chunk and file number of this file of the table.
        stats: Statistics of each of these episodes; what one of them lacks is left out.
        metadata: Further columns, with a value for each of these episodes.
        like: Another file of the table, whose columns this one is to have: LeRobot reads only
            tables whose files are alike.
        sync: Whether the file must be on the disk when this returns.
    """
    own = episode_columns(manifest, place, np.arange(len(manifest.episodes)))
    last = {name: own.pop(name) for name in list(own) if name.startswith("meta/")}
    common = [n for n in (stats[0] if stats else ()) if all(n in each for each in stats)]
    of_stats = {
        stat_column(name, key): column
        for name in common
        for key, column in stats_to_columns([each[name] for each in stats]).items()
    }
    write_columns(path, {**own, **metadata, **of_stats, **last}, like=like, sync=sync)


def episode_columns(manifest: Manifest, place: Place, part: NDArray[np.int64]) -> dict[str, Any]:
    """Return what the episode table says of some episodes, without statistics and metadata.

    Args:
        manifest: The dataset.
        place: Chunk and file number of the file of the table that lists them.
        part: The positions of these episodes.
    """
    episodes = manifest.episodes
    tasks = TextLists(episodes.task_bounds, episodes.task_codes, episodes.task_texts)
    columns: dict[str, Any] = {
        EPISODE_NUMBER: episodes.number[part],
        "tasks": tasks.take(part),
        "length": episodes.length[part],
        **_file_columns("data", manifest.data_files, episodes.data_file[part]),
        "dataset_from_index": episodes.start[part],
        "dataset_to_index": (episodes.start + episodes.length)[part],
    }
    for camera, clips in episodes.clips.items():
        prefix = f"videos/{camera}"
        columns |= _file_columns(prefix, manifest.video_files[camera], clips.file[part])
        columns[f"{prefix}/from_timestamp"] = clips.start_s[part]
        columns[f"{prefix}/to_timestamp"] = clips.stop_s[part]
    for name, number in zip(_NUMBERS, place, strict=True):
        columns[f"meta/episodes/{name}"] = np.full(len(part), number, np.int64)
    return columns


def _file_columns(
    prefix: str, files: FileSet, file_of_episode: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    return {f"{prefix}/{name}": files.numbers[name][file_of_episode] for name in _NUMBERS}


def write_texts(path: Path, texts: Mapping[int, str], noun: str, *, sync: bool = False) -> None:
    """Write a table of numbered texts, the text as the pandas index by which LeRobot looks up."""
    described = [
        {
            "name": name,
            "field_name": name,
            "pandas_type": kind,
            "numpy_type": kind,
            "metadata": None,
        }
        for name, kind in ((f"{noun}_index", "int64"), (noun, "unicode"))
    ]
    pandas = {
        "index_columns": [noun],
        "column_indexes": [],
        "columns": described,
        "pandas_version": "2.0.0",
    }
    columns = {
        f"{noun}_index": np.fromiter(texts, dtype=np.int64, count=len(texts)),
        noun: np.array(list(texts.values()), dtype=object),
    }
    write_columns(path, columns, metadata={"pandas": json.dumps(pandas)}, sync=sync)


def _numbers_in(path: Path) -> NDArray[np.int64]:
    with open_parquet(path) as table:
        return table.numbers([EPISODE_NUMBER])[EPISODE_NUMBER].astype(np.int64)


# Corrections, value by value.


def _changes(
    path: Path,
    numbers: NDArray[np.int64],
    rows: NDArray[np.int64],
    new: dict[str, dict[int, Any]],
    episode_stats: Mapping[int, Stats],
) -> tuple[dict[str, list[Any]], list[Difference]]:
    """Return the columns of a table that change, and where.

    Args:
        path: The table.
        numbers: The episodes that it goes on listing.
        rows: The row of each.
        new: What each column says, by place of the episode.
        episode_stats: New statistics, by number of the episode.
    """
    columns: dict[str, list[Any]] = {}
    differences: list[Difference] = []
    with open_parquet(path) as table:
        there = set(table.column_names)
        for place, number in enumerate(numbers.tolist()):
            for name, value in _stats_entries(episode_stats.get(number, {})).items():
                if name in there:
                    new.setdefault(name, {})[place] = value
        for name, values in new.items():
            stored = table.arrays([name])[name] if name in there else [ABSENT] * table.num_rows
            old = [stored[row] for row in rows.tolist()]
            differing = [
                Difference(f"episode {numbers[place]}, {name}", old[place], value)
                for place, value in values.items()
                if not _is_same(old[place], value)
            ]
            if differing:
                columns[name] = [values.get(place, old[place]) for place in range(len(rows))]
                differences += differing
    return columns, differences


def _stats_entries(stats: Stats) -> dict[str, Any]:
    """Return the statistics of an episode by column."""
    return {
        stat_column(name, key): value
        for name, of_feature in stats.items()
        for key, value in stats_to_json(of_feature).items()
    }


def _is_same(old: object, new: object) -> bool:
    if isinstance(new, float) and np.isnan(new):
        return old is None or (isinstance(old, float) and np.isnan(old))
    # A list of one stands for the number alone, which some writers store.
    return old is not ABSENT and old in (new, new[0] if isinstance(new, list) and new else new)


def _gone(number: int) -> Difference:
    return Difference(f"episode {number}, an earlier entry", "listed", ABSENT)


def _rewrite(
    file: str, columns: Mapping[str, list[Any]], rows: NDArray[np.int64], root: Path, out: Path
) -> None:
    rewrite_rows(root / file, out, columns=columns, rows=rows)


# Rows of old tables in new ones: columns that are unknown to us stay.


def copy_rows(edited: EditedEpisodes, stage: Stage) -> None:
    """Write the files of the episode table, one for each old one that still has episodes.

    Args:
        edited: The episodes; all sources have episode tables.
        stage: Where to write each file; called in the order in which they are to appear.
    """
    files = [(s, path) for s, m in enumerate(edited.sources) for path in episode_files(m.root)]
    layout = _joined_layout(edited, files)
    rows_of = [EpisodeTables(manifest).rows for manifest in edited.sources]
    listed: dict[tuple[int, Path], list[tuple[int, int]]] = {}
    for new, origin in enumerate(edited.origins):
        path, row = rows_of[origin.source][origin.number]
        listed.setdefault((origin.source, path), []).append((row, new))
    place = (0, -1)
    for source, path in files:
        if (source, path) not in listed:
            continue
        place = (
            place_of(path) if edited.in_place else following(place, edited.manifest.files_per_chunk)
        )
        rows, news = np.array(listed[source, path], np.int64).T
        with open_rows(path) as stream:
            table = stream.take(0, stream.num_rows).take(from_numpy(rows.copy()))
        part = _new_rows(edited, source, table, news, place, layout)
        target = path.relative_to(edited.sources[0].root).as_posix() if edited.in_place else None
        write_parts(stage(target or episodes_path(place)), _in_groups(part), layout)


def _in_groups(part: TablePart) -> Iterator[TablePart]:
    """Yield the rows of a table in pieces, each of which becomes a row group."""
    for start in range(0, part.table.num_rows, _GROUP_ROWS):
        columns = {n: values[start : start + _GROUP_ROWS] for n, values in part.columns.items()}
        yield TablePart(part.table.slice(start, _GROUP_ROWS), columns, part.names)


def _joined_layout(edited: EditedEpisodes, files: Sequence[tuple[int, Path]]) -> Layout:
    """Return the columns of the new table: all that any of the old ones has, and new ones."""
    layouts = []
    for source, path in files:
        old = read_layout(path)
        layouts.append(old.renamed(_column_names(old.names, edited.names[source])))
    kinds: dict[str, type] = {}
    for origin in edited.origins:
        for name, value in origin.columns.items():
            if value is not None or name not in kinds:
                kinds[name] = type(value)
    layout = layouts[0]
    for further in layouts[1:]:
        layout = layout.joined(further)
    return layout.added({name: _ARROW_NAMES.get(kind, "string") for name, kind in kinds.items()})


def _column_names(columns: Sequence[str], names: Names) -> dict[str, str | None]:
    """Return the new names of the columns of features, by old name."""
    renamed: dict[str, str | None] = {}
    for column in columns:
        parts = column.split("/")
        feature = "/".join(parts[1:-1])
        if parts[0] in ("videos", "stats") and feature in names:
            new = names[feature]
            renamed[column] = None if new is None else f"{parts[0]}/{new}/{parts[-1]}"
    return renamed


def _new_rows(
    edited: EditedEpisodes,
    source: int,
    table: Any,  # noqa: ANN401  # pyarrow is untyped
    news: NDArray[np.int64],
    place: Place,
    layout: Layout,
) -> TablePart:
    """Return rows of an old table, with what is new about each episode."""
    columns = episode_columns(edited.manifest, place, news)
    columns["tasks"] = [list(edited.manifest.episodes.tasks_of(n)) for n in news.tolist()]
    names = _column_names(table.column_names, edited.names[source])
    old = {names.get(column, column): column for column in table.column_names}
    known = set(layout.names)
    for row, number in enumerate(news.tolist()):
        origin = edited.origins[number]
        changed = {**origin.columns, **_stats_entries(origin.stats)}
        for name in changed.keys() & known:
            if name not in columns:
                there = name in old
                columns[name] = table.column(old[name]).to_pylist() if there else [None] * len(news)
            columns[name][row] = changed[name]
    return TablePart(table, {n: c for n, c in columns.items() if n in known}, names)
