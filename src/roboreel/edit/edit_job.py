"""An edit as a job: tasks make files, anywhere, and one commit publishes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit.clips import write_clips
from roboreel.edit.edit_commit import commit_edit, file_of
from roboreel.edit.encoding import encode_span
from roboreel.edit.making import write_data
from roboreel.edit.portable import context_from_plain, context_to_plain
from roboreel.edit.results import write_looks, write_places, write_rows_result
from roboreel.edit.rows import data_layout
from roboreel.edit.statistics import image_statistics, looks_at_images, wanted_statistics
from roboreel.edit.verifying import verify_clips, verify_rows
from roboreel.edit.work import list_work
from roboreel.io.states import digest_of
from roboreel.jobs import Operation, Plan, cut
from roboreel.parquet.row_stream import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from roboreel.edit.context import EditContext
    from roboreel.edit.plan import EditPlan
    from roboreel.edit.rows import StatsWanted
    from roboreel.edit.targets import FileTarget
    from roboreel.edit.work import WorkItem
    from roboreel.jobs import Part, Task


@dataclass(frozen=True)
class Work:
    """An edit that is carried out by tasks."""

    context: EditContext
    columns: Layout
    """Of the new data files."""
    verify: bool
    """Whether copies are read back and compared."""

    @cached_property
    def wanted(self) -> StatsWanted:
        """Which statistics are computed from the rows."""
        return wanted_statistics(self.context)

    @cached_property
    def items(self) -> list[WorkItem]:
        """What there is to do; a task does some that follow each other."""
        return list_work(self.context, looks=looks_at_images(self.context))


def plan_edit_job(plan: EditPlan, *, verify: bool = False, task_s: float | None = None) -> Plan:
    """Plan an edit as a job, whose result says where the dataset is and what it has.

    Args:
        plan: What to do.
        verify: Whether to read what was copied again, and to compare every row and packet.
        task_s: About how long a task should take one core; by default see `target_cost`.
    """
    context = plan.context
    work = Work(context, data_layout(context), verify)
    cost = np.array([item.cost_s for item in work.items])
    bounds = cut(cost, np.arange(len(cost)), task_s)
    options = {
        **context_to_plain(context),
        "out": None if plan.out is None else str(plan.out.absolute()),
        "summary": plan.summary,
        "columns": work.columns.to_text(),
        "verify": verify,
        "metadata": digest_of(context.states(metadata_only=True)),
        "state": digest_of(plan.states),
    }
    inputs = {"first": bounds[:-1], "stop": bounds[1:]}
    costs = np.add.reduceat(cost, bounds[:-1])
    return Plan("roboreel.edit.edit_job:OPERATION", options, inputs, costs)


def _open(options: Mapping[str, Any]) -> Work:
    return _opened(json.dumps(options))


@lru_cache(maxsize=1)
def _opened(text: str) -> Work:
    options = json.loads(text)
    context = context_from_plain(options)
    context.check_states(options["metadata"], metadata_only=True)
    return Work(context, Layout.from_text(options["columns"]), options["verify"])


def _run(task: Task, folder: Path) -> dict[str, Any]:
    work = _open(task.options)
    span = range(task.inputs["first"], task.inputs["stop"])
    for number in span:
        _make(work, work.items[number], folder / str(number))
    return {"items": len(span)}


def _make(work: Work, item: WorkItem, place: Path) -> None:
    """Make one file, or a part of one, and write its results beside it."""
    if item.kind == "look":
        numbers = range(item.start, item.stop)
        looks = {number: image_statistics(work.context, number) for number in numbers}
        write_looks(place.with_suffix(".json"), looks)
    elif item.kind == "rows":
        _make_rows(work, work.context.layout.data[item.target], place)
    elif item.kind == "video":
        _make_video(work, work.context.layout.videos[item.target], place)
    else:
        target = work.context.layout.videos[item.target]
        encode_span(work.context, target, (item.start, item.stop), file_of(target, place))


def _make_video(work: Work, target: FileTarget, place: Path) -> None:
    # Links are made by the commit: a task writes to its own folder alone.
    out = file_of(target, place) if target.rung in ("copied", "remuxed") else None
    places = write_clips(work.context, target, out)
    if work.verify and target.rung == "remuxed" and out is not None:
        verify_clips(work.context, target, places, out)
    write_places(place.with_suffix(".json"), places)


def _make_rows(work: Work, target: FileTarget, place: Path) -> None:
    out = file_of(target, place) if target.rung in ("copied", "rewritten") else None
    result = write_data(work.context, target, work.columns, work.wanted, out)
    if work.verify and target.rung == "rewritten" and out is not None:
        verify_rows(work.context, target, out)
    write_rows_result(place.with_suffix(".json"), result)


def _commit(plan: Plan, parts: Iterator[Part]) -> dict[str, Any]:
    folders: dict[int, Path] = {}
    for part in parts:
        span = range(part.task.inputs["first"], part.task.inputs["stop"])
        folders |= dict.fromkeys(span, part.folder)
    return commit_edit(plan.options, folders, lambda: _open(plan.options))


OPERATION = Operation(run=_run, commit=_commit)
