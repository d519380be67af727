"""Repairs of the counters in the data files: rows sorted and numbered, tasks filled in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.format.counters import TASK_NUMBER
from roboreel.format.edits import Difference, FileEdit
from roboreel.parquet.rewrite import rewrite_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.check.data_file import DataFile
    from roboreel.repair.draft import Draft

_INDEX, _FRAME = "index", "frame_index"
_CODES = ("RR205", "RR206", "RR207", "RR209")


def cure_rows(draft: Draft) -> None:
    """Sort the rows of episodes, number them, and give them the task of their episode."""
    found = draft.asked(*_CODES)
    if not found:
        return
    for file in draft.data_files():
        edit = _edit(draft, file)
        about = [one for one in found if one.file == file.path]
        draft.cure(about)
        codes = {one.code for one in about} or {"RR205"}
        draft.write(edit, tuple(sorted(codes)))


def _edit(draft: Draft, file: DataFile) -> FileEdit | None:
    """Return how a data file changes; None if it does not."""
    order = _order(draft, file)
    columns: dict[str, NDArray[Any]] = {}
    if draft.codes("RR205") or draft.asked("RR205"):
        columns |= _numbered(draft, file)
    columns |= _with_tasks(draft, file, order)
    differences = _differences(file, order, columns)
    if not differences:
        return None
    moved = None if np.array_equal(order, np.arange(len(order))) else order
    _remember(draft, file, columns)
    write = partial(_rewrite, file.path, columns, moved)
    return FileEdit(
        file.path, tuple(differences), write, draft.context.listing.size_bytes(file.path)
    )


def _order(draft: Draft, file: DataFile) -> NDArray[np.int64]:
    """Return the rows of a file in the order of their frames, where that is asked for."""
    order = np.arange(file.num_rows)
    wrong = {one.episode for one in draft.findings if one.code == "RR206"}
    frames, spans = file.counters.get(_FRAME), file.spans
    if not wrong or frames is None or frames.values is None:
        return order
    numbers = draft.context.manifest.episodes.number[spans.position].tolist()
    for number, start, stop in zip(numbers, spans.start.tolist(), spans.stop.tolist(), strict=True):
        if number in wrong:
            order[start:stop] = start + np.argsort(frames.values[start:stop], kind="stable")
    return order


def _numbered(draft: Draft, file: DataFile) -> dict[str, NDArray[Any]]:
    """Return the column that counts the rows of the dataset."""
    column, spans = file.counters.get(_INDEX), file.spans
    if column is None or column.values is None:
        return {}
    values = column.values.astype(np.int64)
    first = draft.manifest.episodes.start[spans.position]
    values[spans.rows] = (first - spans.start)[spans.owner] + spans.rows
    return {_INDEX: values}


def _with_tasks(draft: Draft, file: DataFile, order: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the column of tasks, with the episode's own where a row has none that is defined."""
    wrong = {one.episode for one in draft.findings if one.code in ("RR207", "RR209")}
    column, spans = file.counters.get(TASK_NUMBER), file.spans
    if not wrong or column is None or column.values is None:
        return {}
    values = column.values.astype(np.int64)
    nulls = np.zeros(len(values), bool) if column.nulls is None else column.nulls
    unknown = nulls | ~np.isin(values, list(draft.manifest.tasks))
    episodes, filled = draft.manifest.episodes, nulls.copy()
    for position, start, stop in zip(
        spans.position.tolist(), spans.start.tolist(), spans.stop.tolist(), strict=True
    ):
        if int(episodes.number[position]) in wrong:
            place = start + np.flatnonzero(unknown[start:stop])
            values[place] = _task_number(draft, episodes.tasks_of(position)[0])
            filled[place] = False
    # A column that keeps a null cannot be written as plain numbers.
    return {} if filled.any() else {TASK_NUMBER: values[order]}


def _task_number(draft: Draft, text: str) -> int:
    """Return the number of a task, which gets the next one if it has none."""
    known = {**draft.manifest.tasks, **draft.new_tasks}
    for number, one in known.items():
        if one == text:
            return number
    number = max(known, default=-1) + 1
    draft.new_tasks[number] = text
    return number


def _differences(
    file: DataFile, order: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]
) -> list[Difference]:
    moved = int((order != np.arange(len(order))).sum())
    found = [Difference(f"{moved:,} rows", "out of order", "in the order of their frames")]
    found = found if moved else []
    for name, values in columns.items():
        stored = file.counters[name]
        old = np.zeros(0) if stored.values is None else stored.values[order]
        nulls = np.zeros(len(old), bool) if stored.nulls is None else stored.nulls[order]
        wrong = np.flatnonzero((old != values) | nulls)
        if len(wrong):
            first = int(wrong[0])
            what = f"{name} of {len(wrong):,} rows, from row {first} of the file"
            before = "null" if nulls[first] else int(old[first])
            found.append(Difference(what, before, int(values[first])))
    return found


def _remember(draft: Draft, file: DataFile, columns: Mapping[str, NDArray[Any]]) -> None:
    """Keep the new values by episode: statistics are computed from them."""
    spans = file.spans
    for name, values in columns.items():
        for position, start, stop in zip(
            spans.position.tolist(), spans.start.tolist(), spans.stop.tolist(), strict=True
        ):
            draft.columns[position, name] = values[start:stop]


def _rewrite(
    file: str,
    columns: Mapping[str, NDArray[Any]],
    rows: NDArray[np.int64] | None,
    root: Path,
    out: Path,
) -> None:
    rewrite_rows(root / file, out, columns=columns, rows=rows)
