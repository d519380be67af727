"""Corruptions of the data files, and of what the metadata says about their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.clean import LENGTHS
from tests.corruption import STATISTICS, Place, corruption
from tests.surgery import Folder, damage_page, remove_footer, skip_without_null_lists

if TYPE_CHECKING:
    from collections.abc import Callable

V3 = ("v3.0",)


@corruption("RR201", restores="values")
def parquet_without_footer(folder: Folder) -> Place:
    file = folder.data(4)
    remove_footer(folder.root / file)
    return Place((file,), (4, 5))


@corruption("RR201")
def zero_byte_data_file(folder: Folder) -> Place:
    file = folder.data(4)
    (folder.root / file).write_bytes(b"")
    return Place((file,), (4, 5))


@corruption("RR202", restores="values", also=("RR101", "RR203"))
def length_wrong(folder: Folder) -> Place:
    """The table counts two frames more than the file has; v3.0 has the right span beside it."""
    folder.edit_episode(2, length=LENGTHS[2] + 2)
    return Place((folder.data(2), folder.episode_table), (2,))


@corruption("RR202", fixable=True, also=("RR101", "RR203", "RR205", "RR403", *STATISTICS))
def rows_missing(folder: Folder) -> Place:
    """The file has lost the last three rows of an episode. Its length can be corrected."""
    folder.edit_frames(2, lambda table: table.slice(0, len(table) - 3))
    return Place((folder.data(2), folder.episode_table), (2,))


@corruption("RR203", versions=V3, restores="values")
def spans_wrong(folder: Folder) -> Place:
    row = folder.episode_rows()[3]
    ends = ("dataset_from_index", "dataset_to_index")
    folder.edit_episode(3, **{end: row[end] + 2 for end in ends})
    return Place((folder.episode_table,), (3,))


@corruption("RR204", also=("RR202", "RR205", "RR402", "RR403", *STATISTICS))
def episodes_swapped(folder: Folder) -> Place:
    """The rows of two episodes of different lengths have changed places."""
    files = (folder.data(2), folder.data(3))
    if files[0] == files[1]:
        folder.write_row_groups(files[0], reversed(folder.row_groups(files[0])))
    else:
        first, second = (folder.root / file for file in files)
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    return Place(files, (2, 3))


@corruption("RR204", also=STATISTICS)
def episode_index_mixed(folder: Folder) -> Place:
    """The last rows of an episode claim to be of the next one."""
    folder.edit_column(2, "episode_index", lambda values: [*values[:-4], 3, 3, 3, 3])
    return Place((folder.data(2),), (2,))


@corruption("RR205", restores="values", also=STATISTICS)
def duplicate_index(folder: Folder) -> Place:
    folder.edit_column(2, "index", lambda values: [*values[:5], values[4], *values[6:]])
    return Place((folder.data(2),), (2,))


@corruption("RR205", restores="values", also=STATISTICS)
def gap_in_index(folder: Folder) -> Place:
    """From episode 4 on, every row counts five more."""
    for episode in (4, 5):
        folder.edit_column(episode, "index", lambda values: [value + 5 for value in values])
    return Place((folder.data(4),), (4,))


@corruption("RR206", restores="values", also=("RR205", "RR302"))
def rows_out_of_order(folder: Folder) -> Place:
    """Two stretches of an episode have changed places, with all that belongs to their rows."""
    order = [*range(6, 12), *range(6), *range(12, LENGTHS[2])]
    folder.edit_frames(2, lambda table: table.take(order))
    return Place((folder.data(2),), (2,))


@corruption("RR207", restores="values", also=STATISTICS)
def dangling_task_index(folder: Folder) -> Place:
    folder.edit_column(2, "task_index", lambda values: [99] * len(values))
    return Place((folder.data(2),), (2,))


@corruption("RR208")
def unused_task(folder: Folder) -> Place:
    task = {"task_index": 3, "task": "fold the towel"}
    folder.edit_table(folder.task_table, lambda rows: [*rows, task])
    folder.edit_info(total_tasks=4)
    return Place((folder.task_table,))


@corruption("RR209", restores="values", also=("RR212", *STATISTICS))
def null_task_index(folder: Folder) -> Place:
    folder.edit_column(2, "task_index", lambda values: [*values[:4], None, None, *values[6:]])
    return Place((folder.data(2),), (2,))


@corruption("RR210")
def shape_differs(folder: Folder) -> Place:
    folder.edit_feature("action", shape=[7], names=[f"joint_{i}" for i in range(7)])
    return Place(("meta/info.json", folder.data(0)), (0,), "action")


@corruption("RR210")
def dtype_differs(folder: Folder) -> Place:
    """One file stores float64 where float32 is declared."""
    file = folder.data(4)
    stored = pa.list_(pa.float64(), 6)
    _edit_groups(folder, file, lambda table: _cast(table, "observation.state", stored))
    return Place((file,), (4, 5), "observation.state")


@corruption("RR211")
def column_missing(folder: Folder) -> Place:
    file = folder.data(4)
    _edit_groups(folder, file, lambda table: table.drop_columns(["action"]))
    return Place((file,), (4, 5), "action")


@corruption("RR212", also=STATISTICS)
def nulls(folder: Folder) -> Place:
    skip_without_null_lists()
    folder.edit_column(3, "action", lambda values: [*values[:4], None, None, *values[6:]])
    return Place((folder.data(3),), (3,), "action")


@corruption("RR213", also=("RR001",))
def damaged_page(folder: Folder) -> Place:
    """One column of one row group cannot be read; the rest of the file can."""
    file = folder.data(3)
    damage_page(folder.root / file, folder.episodes_in(file).index(3), "action")
    return Place((file,), (3,), "action")


def _edit_groups(folder: Folder, file: str, change: Callable[[Any], Any]) -> None:
    folder.write_row_groups(file, [change(group) for group in folder.row_groups(file)])


def _cast(table: pa.Table, name: str, stored: pa.DataType) -> pa.Table:
    column = table.schema.get_field_index(name)
    values = pa.array(table.column(column).to_pylist(), stored)
    return table.set_column(column, pa.field(name, stored), values)
