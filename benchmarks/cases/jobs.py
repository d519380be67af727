"""roboreel plans and carries out jobs."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.meter import Meter
    from roboreel.jobs import Executor, Operation, Plan

WAYS = ("without a job", "at once", "in this process", "in one process", "in two processes")


def plan(meter: Meter, tasks: int) -> None:
    """Plan a job of many tasks, write it, open it again and ask how far it is."""
    import numpy as np

    from roboreel.jobs import create_job, open_job

    folder = Path(tempfile.gettempdir(), "job")
    with meter.step("plan, with all ids"):
        planned = _burning(np.arange(tasks), 10.0)
        _ = planned.key
    with meter.step("write"):
        create_job(folder, planned)
    with meter.step("open and status"):
        status = open_job(folder).status()
    meter.note(tasks=status.total)


def overhead(meter: Meter, way: str, tasks: int, task_s: float) -> None:
    """Carry out tasks that only compute, so that the rest is overhead."""
    import numpy as np

    from roboreel.jobs import execute

    planned = _burning(np.arange(tasks), task_s)
    with meter.step("a task", tasks):
        if way == WAYS[0]:
            for number in range(tasks):
                _burn(planned.task(number), Path())
        else:
            small = _at_once(planned) if way == WAYS[1] else planned
            execute(small, on=_executor(way))
    meter.note(task_s=task_s)


def statistics(meter: Meter, root: str, way: str, frames: int) -> None:
    """Compute the statistics of all numbers and images."""
    from roboreel import open_dataset
    from roboreel.dataset.statistics_job import plan_statistics
    from roboreel.jobs import execute

    planned = plan_statistics(open_dataset(root), images=True)
    with meter.step("statistics, a frame", frames):
        execute(planned, on=_executor(way))
    meter.note(tasks=len(planned))


def materialize(meter: Meter, root: str, way: str, frames: int) -> None:
    """Build a training cache of 224 x 224."""
    from roboreel import Jpeg, open_dataset
    from roboreel.dataset.cache.build_job import plan_build
    from roboreel.jobs import execute

    out = Path(tempfile.gettempdir(), "cache")
    planned = plan_build(open_dataset(root), out, {"*": Jpeg((224, 224))})
    with meter.step("cache, a frame", frames):
        execute(planned, on=_executor(way))
    meter.note(tasks=len(planned))


def ray_data(meter: Meter, reader: str, root: str, cameras: int) -> None:
    """Read a dataset by Ray Data, on one core; the CPU time is that of Ray's workers."""
    from benchmarks.ray_reading import in_own_network

    with meter.step("start Ray, read twice"):
        found = in_own_network(reader, root, cameras)
    meter.note(images_per_cpu_s=found["images"] / found["cpu_s"])


def _executor(way: str) -> Executor | None:
    from roboreel.jobs import InProcess, Processes

    if way == WAYS[1]:
        return None
    return InProcess() if way == WAYS[2] else Processes(WAYS.index(way) - 2)


def _burning(numbers: Any, task_s: float) -> Plan:  # noqa: ANN401  # an array
    from roboreel.jobs import Plan

    options = {"task_s": task_s}
    return Plan("benchmarks.cases.jobs:BURN", options, {"number": numbers}, numbers * 0 + task_s)


def _at_once(planned: Plan) -> Plan:
    """Return the plan with costs so low that it is carried out at once."""
    from roboreel.jobs import Plan

    return Plan(planned.operation, planned.options, planned.inputs, planned.cost * 1e-6)


def _burn(task: Any, folder: Path) -> dict[str, Any]:  # noqa: ANN401  # a Task
    end = time.process_time() + task.options["task_s"]
    while time.process_time() < end:
        pass
    if folder != Path():
        (folder / "out").write_bytes(bytes(100_000))
    return {"number": task.inputs["number"]}


def _count(plan: Any, parts: Any) -> int:  # noqa: ANN401  # a Plan, its parts
    return sum(1 for _ in parts)


def __getattr__(name: str) -> Operation:
    if name != "BURN":
        raise AttributeError(name)
    from roboreel.jobs import Operation

    return Operation(run=_burn, commit=_count)
