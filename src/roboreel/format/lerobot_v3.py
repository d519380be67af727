"""LeRobot v3.0: episodes and tasks in Parquet, many episodes to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, MetadataError
from roboreel.findings import finding
from roboreel.format.consistency import compare_metadata, compare_spans, repeated_number
from roboreel.format.files_v3 import data_files_of, video_files_of
from roboreel.format.json_files import whole
from roboreel.format.paths import EPISODES_FOLDER, SUBTASKS_PATH, TASKS_PATH
from roboreel.format.tables import arrange_episodes, sorted_once
from roboreel.format.tables_v3 import named_and_ignored_files
from roboreel.parquet.parquet_table import open_parquet
from roboreel.parquet.ragged import TextLists
from roboreel.schema import ClipTable, Manifest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path, PurePath

    from numpy.typing import NDArray

    from roboreel.findings import Finding
    from roboreel.format.info import Info
    from roboreel.schema import FileSet

_CLIP_FIELDS = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
_REQUIRED = ("episode_index", "length")
_OPTIONAL = (
    "data/chunk_index",
    "data/file_index",
    "dataset_from_index",
    "dataset_to_index",
)


def read_manifest(root: Path, info: Info) -> Manifest:
    """Return what the metadata of a v3.0 dataset says; statistics are not read."""
    cameras = [name for name, feature in info.features.items() if feature.is_video]
    tables, ignored = named_and_ignored_files(root)
    if not tables and info.totals.get("total_episodes"):
        raise MetadataError(
            f"The episode table is missing: info.json counts {info.totals['total_episodes']} "
            f"episodes, but there is no Parquet file in {str(root / EPISODES_FOLDER)!r}."
        )
    listed = _read_episodes(tables, cameras)
    _check_numbers(listed.numbers, root)
    # A finding names the file, if there is only one.
    table = tables[0].relative_to(root).as_posix() if len(tables) == 1 else EPISODES_FOLDER
    first, problems = sorted_once(listed.numbers["episode_index"], table)
    columns = {name: column[first] for name, column in listed.numbers.items()}
    if (columns.get("dataset_from_index", first) < 0).any():
        unsaid = "Some episodes do not say which rows they hold; all are in number order."
        problems += (finding("RR203", unsaid, file=table),)
        del columns["dataset_from_index"]
    data = data_files_of(root, info, columns, table)
    problems += data.problems
    video_files, clips = {}, {}
    for camera in cameras:
        files, clip_table, trouble = _clips(root, info, columns, camera)
        video_files[camera], clips[camera] = files, clip_table
        problems += trouble
    episodes = arrange_episodes(
        number=columns["episode_index"],
        length=columns["length"],
        place=columns.get("dataset_from_index", columns["episode_index"]),
        data_file=data.file,
        clips=clips,
        tasks=listed.tasks.take(first),
        path=root / "meta" / "episodes",
    )
    tasks, task_problems = _read_texts(root, TASKS_PATH, "task")
    subtasks, subtask_problems = _read_texts(root, SUBTASKS_PATH, "subtask")
    return Manifest(
        root=root,
        version=info.version_name,
        fps=info.fps,
        features=info.features,
        tasks=tasks,
        episodes=episodes,
        data_files=data.files,
        video_files=video_files,
        robot_type=info.robot_type,
        subtasks=subtasks,
        splits=info.splits,
        extra=info.extra,
        files_per_chunk=info.chunks_size,
        problems=(
            *info.problems,
            *problems,
            *(_ignored(path.relative_to(root)) for path in ignored),
            *compare_spans(columns, table),
            *compare_metadata(root, info, episodes, tasks),
            *task_problems,
            *subtask_problems,
        ),
    )


def _ignored(path: PurePath) -> Finding:
    # LeRobot reads meta/episodes/*/*.parquet, whatever the names.
    says = ", but LeRobot reads it" if len(path.parts) == 4 else ""
    return finding(
        "RR106",
        "This table is not named as the files of the episode table are, such as "
        f"chunk-000/file-000.parquet. It is ignored{says}.",
        file=path.as_posix(),
    )


def _check_numbers(columns: Mapping[str, NDArray[Any]], root: Path) -> None:
    for name in _REQUIRED:
        if (columns[name] < 0).any():
            raise MetadataError(
                f"{name!r} is missing or negative for an episode, in "
                f"{str(root / 'meta' / 'episodes')!r}."
            )


class _Listed:
    """The columns of the episode table, in the order in which its files list them."""

    def __init__(self, numbers: dict[str, NDArray[Any]], tasks: TextLists) -> None:
        self.numbers = numbers
        self.tasks = tasks


def _read_episodes(files: Sequence[Path], cameras: Sequence[str]) -> _Listed:
    """Read the columns that locate episodes, without the statistics: those are most of the bytes."""
    wanted = [*_REQUIRED, *_OPTIONAL]
    wanted += [f"videos/{camera}/{field}" for camera in cameras for field in _CLIP_FIELDS]
    needed = frozenset((*wanted, "tasks"))
    parts, tasks = [], []
    for path in files:
        with open_parquet(path, only=needed.__contains__) as table:
            missing = [name for name in _REQUIRED if name not in table.column_names]
            if missing:
                raise MetadataError(
                    f"Column {missing[0]!r} is missing: an episode table needs "
                    f"{', '.join(_REQUIRED)}, in {str(path)!r}."
                )
            table.prefetch([*wanted, "tasks"])
            parts.append(table.numbers([n for n in wanted if n in table.column_names]))
            tasks.append(_tasks_of(table))
    names = [name for name in wanted if all(name in part for part in parts)] if parts else _REQUIRED
    numbers = {name: _joined([part[name] for part in parts], name) for name in names}
    return _Listed(numbers, TextLists.joined(tasks))


def _joined(parts: Sequence[NDArray[Any]], name: str) -> NDArray[Any]:
    values = np.concatenate([np.empty(0, np.int64), *parts])
    if name.endswith("timestamp"):
        return values.astype(np.float64)
    if values.dtype.kind == "f":  # Some writers store whole numbers as doubles.
        values = np.where(np.isnan(values), -1, values)
        if (values != np.floor(values)).any() or (np.abs(values) > 2**53).any():
            raise MetadataError(f"Column {name!r} of the episode table holds fractions.")
    return values.astype(np.int64)


def _tasks_of(table: Any) -> TextLists:  # noqa: ANN401  # a ParquetTable
    if "tasks" in table.column_names:
        lists: TextLists = table.text_lists("tasks")
        return lists
    return TextLists.from_lists([[]] * table.num_rows)


def _clips(
    root: Path, info: Info, columns: Mapping[str, NDArray[Any]], camera: str
) -> tuple[FileSet, ClipTable, tuple[Finding, ...]]:
    found = video_files_of(root, info, columns, camera)
    prefix = f"videos/{camera}"
    unknown = np.full(len(found.file), np.nan)
    start_s = columns.get(f"{prefix}/from_timestamp", unknown)
    stop_s = columns.get(f"{prefix}/to_timestamp", unknown)
    # A clip that is alone in its file starts with it, if nothing else is said.
    clips_in_file = np.bincount(found.file + 1, minlength=1)
    alone = clips_in_file[found.file + 1] == 1
    start_s = np.where(np.isnan(start_s) & alone, 0.0, start_s)
    problems = found.problems
    lost = np.flatnonzero(np.isnan(start_s) & (found.file >= 0) & (columns["length"] > 0))
    if len(lost):
        number = int(columns["episode_index"][lost[0]])
        says = (
            f"The episode table does not say where in its file the clip of episode {number} starts "
            f"({len(lost)} such episodes in all), for {camera!r}: they cannot be read."
        )
        problems += (finding("RR404", says, file=EPISODES_FOLDER, episode=number, feature=camera),)
    return found.files, ClipTable(found.file, start_s, stop_s), problems


def _read_texts(root: Path, file: str, noun: str) -> tuple[dict[int, str], tuple[Finding, ...]]:
    """Read a table of numbered texts, and what is wrong with its numbers.

    The text is a named column, or the index of a pandas frame. It is found by its number; if a
    number occurs twice, by the place of its row, as LeRobot finds all of them.
    """
    path = root / file
    if not path.exists():
        return {}, ()
    with open_parquet(path) as table:
        texts = [name for name in (noun, "__index_level_0__") if name in table.column_names]
        if f"{noun}_index" not in table.column_names or not texts:
            raise CorruptFileError(
                f"A table of {noun}s needs the columns '{noun}_index' and '{noun}': there are "
                f"{', '.join(table.column_names) or 'none'}, in {str(path)!r}."
            )
        stored = table.numbers([f"{noun}_index"])[f"{noun}_index"].tolist()
        numbers = [whole(number) for number in stored]
        if None in numbers:
            raise CorruptFileError(
                f"'{noun}_index' holds {stored[numbers.index(None)]!r}, where a whole number was "
                f"expected: {str(path)!r}."
            )
        places = dict(enumerate(table.texts(texts[0])))
    by_number = {
        number: places[place] for place, number in enumerate(numbers) if number is not None
    }
    if by_number == places:
        return places, ()
    if len(by_number) < len(places):
        return places, (repeated_number(numbers, noun, file, "Rows are counted instead"),)
    place = next(place for place, number in enumerate(numbers) if place != number)
    says = (
        f"The row at place {place} has {noun}_index {numbers[place]}. {noun.capitalize()}s are read "
        "by their numbers, but LeRobot reads them by their places, and gets others."
    )
    return by_number, (finding("RR115", says, severity="warning", file=file),)
