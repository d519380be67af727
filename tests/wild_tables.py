"""Wild datasets whose data files are unlike LeRobot's, or damaged in one episode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.clean import (
    CAMERAS,
    FRONT,
    NUM_ROWS,
    SIZES,
    TASKS,
    clean_dataset,
    episode_of,
    rows_of,
    shown,
)
from tests.surgery import LFS_POINTER, Folder, damage_page, skip_without_null_lists
from tests.video_factory import numbered_image
from tests.wild_fixture import V3, Truth, hidden, wild, without

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

DERIVED = ("frame_index", "index", "task_index")
COUNTERS = ("frame_index", "episode_index", "index", "task_index")


@wild("A2")
def gr00t(root: Path, version: str) -> Truth:
    """Neither info.json nor the files have ``frame_index``, ``index`` and ``task_index``.

    ``meta/modality.json`` and an annotation column are there, as GR00T has them. The counters
    follow from the order of the rows, and the task is the episode's.
    """
    folder = Folder(clean_dataset(root, version))
    folder.edit_episode(3, tasks=[TASKS[0]])
    note = "annotation.human.action.task_description"
    kept = {name: f for name, f in folder.info["features"].items() if name not in DERIVED}
    kept[note] = {"dtype": "int64", "shape": [1], "names": None}
    folder.edit_info(features=kept)
    folder.edit_all_frames(
        lambda table, _: table.append_column(note, table["task_index"]).drop_columns([*DERIVED])
    )
    modality = {
        "state": {"arm": {"start": 0, "end": 6}},
        "action": {"arm": {"start": 0, "end": 6}},
        "video": {"front": {"original_key": FRONT}},
        "annotation": {"human.action.task_description": {}},
    }
    (root / "meta/modality.json").write_text(json.dumps(modality, indent=4))
    return Truth(tasks=tuple(TASKS[episode_of(row) % 3] for row in range(NUM_ROWS)))


@wild("A5")
def rows_missing(root: Path, version: str) -> Truth:
    """Episode 2 has three rows fewer than the metadata say. Every other episode reads.

    Its other rows, too, may be refused.
    """
    folder = Folder(clean_dataset(root, version))
    folder.edit_frames(2, lambda table: table.slice(0, len(table) - 3))
    return without(rows_of(2)[-3:], refusable=rows_of(2))


@wild("A5")
def nulls(root: Path, version: str) -> Truth:
    """Two rows of episode 3 have no ``observation.state``. Every other row reads."""
    skip_without_null_lists()
    folder = Folder(clean_dataset(root, version))
    folder.edit_column(
        3, "observation.state", lambda values: [*values[:4], None, None, *values[6:]]
    )
    return Truth(rows=hidden(Truth().rows, rows_of(3)[4:6]))


@wild("A5")
def damaged_page(root: Path, version: str) -> Truth:
    """``observation.state`` of episode 3 cannot be read. Every other episode reads."""
    folder = Folder(clean_dataset(root, version))
    file = folder.data(3)
    damage_page(root / file, folder.episodes_in(file).index(3), "observation.state")
    return Truth(rows=hidden(Truth().rows, rows_of(3)), refusable=frozenset(rows_of(3)))


@wild("A5")
def null_task_index(root: Path, version: str) -> Truth:
    """Two rows of episode 2 have a null task: they have no task, all others have theirs."""
    return _without_task(root, version, None)


@wild("A5")
def unknown_task_index(root: Path, version: str) -> Truth:
    """Two rows of episode 2 have a task that no table defines: they have no task."""
    return _without_task(root, version, 99)


@wild("A6")
def whole_valued_doubles(root: Path, version: str) -> Truth:
    """Integers are doubles, in Parquet and in JSON. All values are as in the clean one."""
    folder = Folder(clean_dataset(root, version))
    folder.edit_all_frames(lambda table, _: _as_doubles(table))
    info = folder.info
    counts = {key: float(value) for key, value in info.items() if isinstance(value, int)}
    features = {
        name: {**feature, "shape": [float(n) for n in feature["shape"]]}
        for name, feature in info["features"].items()
    }
    folder.edit_info(**counts, features=features)
    if folder.is_v3:
        for file in (folder.episode_table, folder.task_table):
            pq.write_table(_as_doubles(pq.read_table(root / file)), root / file)
    else:
        for file in (folder.episode_table, folder.task_table):
            folder.edit_table(file, lambda rows: [_floats(row) for row in rows])
    return Truth()


@wild("A6")
def plain_binary_images(root: Path, version: str) -> Truth:
    """Image columns are plain ``binary`` with a PNG each. All values are as in the clean one."""

    def change(table: pa.Table, camera: str, _rows: Sequence[int]) -> Any:
        return pa.array([value["bytes"] for value in table[camera].to_pylist()], pa.binary())

    return _edit_pictures(root, version, change)


@wild("A6")
def pictures_beside_the_data_file(root: Path, version: str) -> Truth:
    """Image columns have no bytes, but paths of PNG files, relative to the data file's folder."""
    return _with_paths(root, version, lambda folder: (folder.root / folder.data(0)).parent)


@wild("A6")
def pictures_below_the_dataset(root: Path, version: str) -> Truth:
    """Image columns have no bytes, but paths of PNG files, relative to the dataset's folder."""
    return _with_paths(root, version, lambda folder: folder.root)


@wild("A7")
def rgba_images(root: Path, version: str) -> Truth:
    """Images are PNG of four channels, and so does info.json say.

    The colours show the numbers of the clean one; the alpha of row ``r`` is ``255 - r`` everywhere.
    """

    def change(table: pa.Table, camera: str, rows: Sequence[int]) -> Any:
        pictures = []
        for row, number in zip(rows, shown(camera, rows), strict=True):
            colour = numbered_image(number, *SIZES[camera])
            alpha = np.full((*SIZES[camera], 1), 255 - row, np.uint8)
            picture = imagecodecs.png_encode(np.concatenate([colour, alpha], axis=2))
            pictures.append({"bytes": bytes(picture), "path": None})
        return pa.array(pictures, table.schema.field(camera).type)

    truth = _edit_pictures(root, version, change)
    for camera, size in SIZES.items():
        Folder(root).edit_feature(camera, shape=[*size, 4])
    return truth


@wild("A8")
def lfs_pointer_data(root: Path, version: str) -> Truth:
    """One data file is a Git LFS pointer. Every episode of other files reads."""
    folder = Folder(clean_dataset(root, version))
    file = folder.data(3)
    lost = [row for episode in folder.episodes_in(file) for row in rows_of(episode)]
    (root / file).write_text(LFS_POINTER)
    return without(lost, says=("git lfs pull",))


@wild("A9", versions=V3)
def subtasks(root: Path, version: str) -> Truth:
    """``meta/subtasks.parquet`` and a column ``subtask_index``: even rows reach, odd rows grasp."""
    folder = Folder(clean_dataset(root, version))
    feature = {"dtype": "int64", "shape": [1], "names": None}
    folder.edit_info(features={**folder.info["features"], "subtask_index": feature})

    def number(table: pa.Table, episode: int) -> pa.Table:
        numbers = [row % 2 for row in rows_of(episode)]
        return table.append_column("subtask_index", pa.array(numbers, pa.int64()))

    folder.edit_all_frames(number)
    write_subtasks(root / "meta/subtasks.parquet", ["reach", "grasp"])
    return Truth()


def write_subtasks(path: Path, texts: Sequence[str]) -> None:
    """Write a table of subtasks as LeRobot 0.4.4 does: the text is the pandas index."""
    columns = {"subtask_index": list(range(len(texts))), "subtask": list(texts)}
    described = [
        {
            "name": name,
            "field_name": name,
            "pandas_type": kind,
            "numpy_type": kind,
            "metadata": None,
        }
        for name, kind in (("subtask_index", "int64"), ("subtask", "unicode"))
    ]
    pandas = {
        "index_columns": ["subtask"],
        "column_indexes": [],
        "columns": described,
        "pandas_version": "2.0.0",
    }
    table = pa.table(columns).replace_schema_metadata({"pandas": json.dumps(pandas)})
    pq.write_table(table, path)


def _without_task(root: Path, version: str, task: int | None) -> Truth:
    folder = Folder(clean_dataset(root, version))
    folder.edit_column(2, "task_index", lambda values: [*values[:4], task, task, *values[6:]])
    first = rows_of(2)[4]
    tasks = Truth().tasks
    return Truth(tasks=(*tasks[:first], "", "", *tasks[first + 2 :]))


def _edit_pictures(
    root: Path, version: str, change: Callable[[pa.Table, str, Sequence[int]], Any]
) -> Truth:
    """Write a dataset of pictures with other columns in place of its cameras."""

    def edit(table: pa.Table, episode: int) -> pa.Table:
        for camera in CAMERAS:
            column = table.schema.get_field_index(camera)
            table = table.set_column(column, camera, change(table, camera, rows_of(episode)))
        return table

    Folder(clean_dataset(root, version, store="image")).edit_all_frames(edit)
    return Truth()


def _with_paths(root: Path, version: str, base_of: Callable[[Folder], Path]) -> Truth:
    """Write a dataset of pictures in files of their own."""

    def change(table: pa.Table, camera: str, rows: Sequence[int]) -> Any:
        base = base_of(Folder(root))
        values = []
        for row, value in zip(rows, table[camera].to_pylist(), strict=True):
            name = f"images/{camera}/frame_{row:06d}.png"
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_bytes(value["bytes"])
            values.append({"bytes": None, "path": name})
        return pa.array(values, table.schema.field(camera).type)

    return _edit_pictures(root, version, change)


def _as_doubles(table: pa.Table) -> pa.Table:
    for column, field in enumerate(table.schema):
        if pa.types.is_integer(field.type):
            values = table.column(column).cast(pa.float64())
            table = table.set_column(column, field.with_type(pa.float64()), values)
    return table


def _floats(row: dict[str, Any]) -> dict[str, Any]:
    return {key: float(value) if isinstance(value, int) else value for key, value in row.items()}
