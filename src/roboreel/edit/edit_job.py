"""An edit as a job: tasks make files, anywhere, and one commit publishes them."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.commit import Workshop, finish_commit, locked
from roboreel.edit.apply import carry_out
from roboreel.edit.portable import (
    context_from_plain,
    context_to_plain,
    read_result,
    write_result,
)
from roboreel.edit.work import Work
from roboreel.files import write_atomically
from roboreel.io.states import digest_of, size_and_digest
from roboreel.jobs import Operation, Plan, cut
from roboreel.jobs.folder import read_note
from roboreel.parquet.row_stream import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roboreel.commit import Commit, NewFolder
    from roboreel.edit.plan import EditPlan
    from roboreel.jobs import Part, Task

_NOTE = "published.json"


def plan_edit_job(plan: EditPlan, *, verify: bool = False, task_s: float | None = None) -> Plan:
    """Plan an edit as a job, whose result says where the dataset is and what it has.

    Args:
        plan: What to do.
        verify: Whether to read what was copied again, and to compare every row and packet.
        task_s: About how long a task should take one core; by default see `target_cost`.
    """
    context = plan.context
    work = Work(context, verify=verify)
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
    return Work(context, Layout.from_text(options["columns"]), verify=options["verify"])


def _run(task: Task, folder: Path) -> dict[str, Any]:
    work = _open(task.options)
    span = range(task.inputs["first"], task.inputs["stop"])
    for number in span:
        place = folder / str(number)
        write_result(place, work.items[number].kind, work.make(work.items[number], place))
    return {"items": len(span)}


def _commit(plan: Plan, parts: Iterator[Part]) -> dict[str, Any]:
    """Publish what tasks have made, unless that was done before a crash."""
    places: list[Path] = []
    for part in sorted(parts, key=lambda part: int(part.task.inputs["first"])):
        span = range(part.task.inputs["first"], part.task.inputs["stop"])
        places += [part.folder / str(number) for number in span]
    out = None if plan.options["out"] is None else Path(plan.options["out"])
    root = Path(plan.options["sources"][0]) if out is None else out
    note = places[0].parent / _NOTE
    if out is None:
        # What was decided before a crash is done first: then it can be told what there is.
        workshop = Workshop(root)
        with locked(workshop):
            finish_commit(workshop)
    if not _is_published(note, root):
        _publish(plan.options, places, out, note)
    said = read_note(note)
    return {"path": str(root), "episodes": said["episodes"], "frames": said["frames"]}


def _publish(options: Mapping[str, Any], places: list[Path], out: Path | None, note: Path) -> None:
    work = _open(options)

    def result(number: int) -> Any:  # noqa: ANN401  # by the kind of item
        return read_result(places[number], work.items[number].kind, work.wanted.total)

    def make(target: Commit | NewFolder) -> None:
        staged: dict[str, Path] = {}

        def stage(file: str) -> Path:
            staged[file] = target.add(file)
            return staged[file]

        manifest = work.assemble(places, result, stage)
        # Written down right before the dataset is what it will be.
        said = {
            "episodes": len(manifest.episodes),
            "frames": manifest.episodes.num_rows,
            "files": {file: size_and_digest(path) for file, path in staged.items()},
        }
        write_atomically(note, json.dumps(said))

    def check() -> None:
        work.context.check_states(options["state"])

    carry_out(work.context, out, make, check, summary=options["summary"])


def _is_published(note: Path, root: Path) -> bool:
    """Whether a dataset has every file that a commit was about to give it."""
    if not note.exists():
        return False
    files = read_note(note)["files"]
    return all(
        (root / f).is_file() and size_and_digest(root / f) == mark for f, mark in files.items()
    )


OPERATION = Operation(run=_run, commit=_commit)
