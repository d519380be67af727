"""Corrections of the table of tasks: tasks are added, none is changed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from roboreel.format.counters import TASK_NUMBER
from roboreel.format.edits import ABSENT, Difference, FileEdit
from roboreel.format.json_files import write_json_lines
from roboreel.format.paths import tasks_path
from roboreel.format.write_v3 import write_tasks
from roboreel.parquet.jsonl import read_lines
from roboreel.parquet.parquet_table import open_parquet
from roboreel.parquet.rewrite import append_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.schema import Manifest

_BYTES_PER_TASK = 80


def add_tasks(manifest: Manifest, tasks: Mapping[int, str]) -> FileEdit | None:
    """Return how the table of tasks must change to have more tasks; None if there are none to add.

    Args:
        manifest: The dataset. If it has no table of tasks, one is written.
        tasks: Further tasks, by number.
    """
    if not tasks:
        return None
    file = tasks_path(manifest.version)
    differences = tuple(Difference(f"task {n}", ABSENT, text) for n, text in tasks.items())
    write = partial(_write, file, dict(sorted(tasks.items())))
    size = _BYTES_PER_TASK * (len(tasks) + len(manifest.tasks))
    return FileEdit(file, differences, write, size)


def _write(file: str, tasks: Mapping[int, str], root: Path, out: Path) -> None:
    path = root / file
    if file.endswith(".jsonl"):
        lines: list[dict[str, Any]] = []
        if path.exists():
            lines = [entry for _, entry in read_lines(path)]
        write_json_lines(
            out, [*lines, *({TASK_NUMBER: n, "task": text} for n, text in tasks.items())]
        )
    elif path.exists():
        with open_parquet(path) as table:
            text_column = "task" if "task" in table.column_names else "__index_level_0__"
        append_rows(path, out, [{TASK_NUMBER: n, text_column: t} for n, t in tasks.items()])
    else:
        write_tasks(out, tasks, sync=False)
