"""Statistics of a whole dataset as a job: numbers by data files, cameras by video files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.job_source import (
    decoding_s,
    describe_source,
    files_of,
    open_source,
    reading_s,
)
from roboreel.dataset.statistics import known_numbers
from roboreel.format.stats_json import stats_from_json, stats_to_json
from roboreel.jobs import Operation, Plan, cut
from roboreel.stats import Accumulator, ImageAccumulator, gather
from roboreel.stats.gather import add_part, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.dataset.dataset import Dataset
    from roboreel.jobs import Part, Task
    from roboreel.stats import FeatureStats
    from roboreel.stats.gather import Gathered

_NUMBERS = -1
_STATE_FILE = "state.npz"


def plan_statistics(
    dataset: Dataset,
    features: Sequence[str] | None = None,
    *,
    images: bool = False,
    task_s: float | None = None,
) -> Plan:
    """Plan the statistics of a dataset or view; the result is for `stats_of`.

    Args:
        dataset: The dataset or view.
        features: Names of numeric features; by default all of them.
        images: Whether to decode all images too, for the statistics of the cameras. Depth and
            images of other than three channels have none.
        task_s: About how long a task should take one core; by default see `target_cost`.

    Raises:
        FeatureNotFoundError: A feature does not exist, or is not numeric.
    """
    numbers = known_numbers(dataset, features)
    cameras = [name for name in dataset.cameras if _is_counted(dataset, name)] if images else []
    lengths = np.diff(dataset.episode_bounds)
    tasks = []
    if numbers:
        files, seconds = files_of(dataset), reading_s(dataset, numbers, lengths)
        tasks.append(_cut(dataset, _NUMBERS, files, seconds, task_s))
    for number, camera in enumerate(cameras):
        files, seconds = files_of(dataset, camera), decoding_s(dataset, camera, lengths)
        tasks.append(_cut(dataset, number, files, seconds, task_s))
    columns = np.concatenate([task for task, _ in tasks]) if tasks else np.empty((0, 3), np.int64)
    costs = np.concatenate([cost for _, cost in tasks]) if tasks else np.empty(0)
    options = {"source": describe_source(dataset), "numbers": numbers, "cameras": cameras}
    inputs = {name: columns[:, i] for i, name in enumerate(("camera", "start", "stop"))}
    return Plan("roboreel.dataset.statistics_job:OPERATION", options, inputs, costs)


def stats_of(result: Mapping[str, Any]) -> dict[str, FeatureStats]:
    """Return the statistics by feature from what the job returned."""
    return {name: stats_from_json(name, raw, "a job") for name, raw in result.items()}


def _is_counted(dataset: Dataset, camera: str) -> bool:
    feature = dataset.features[camera]
    return feature.depth is None and not feature.has_alpha and feature.shape[-1] == 3


def _cut(
    dataset: Dataset,
    camera: int,
    files: NDArray[np.int64],
    seconds: NDArray[np.float64],
    task_s: float | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return tasks ``(T, 3)`` of whole episodes, cut by the files they are in, and their costs."""
    bounds = cut(seconds, files, task_s)
    samples = dataset.episode_bounds[bounds]
    tasks = np.stack([np.full(len(bounds) - 1, camera), samples[:-1], samples[1:]], axis=1)
    return tasks, np.add.reduceat(seconds, bounds[:-1]) if len(seconds) else seconds


def _run(task: Task, folder: Path) -> dict[str, Any]:
    dataset = open_source(task.options["source"])
    start, stop = task.inputs["start"], task.inputs["stop"]
    camera, features = task.inputs["camera"], dataset.features
    parts: dict[str, Gathered] = (
        {name: Accumulator(features[name].value_shape) for name in task.options["numbers"]}
        if camera == _NUMBERS
        else {task.options["cameras"][camera]: ImageAccumulator(3)}
    )
    gather(parts.items(), features, (start, stop), dataset.read)
    np.savez(folder / _STATE_FILE, **packed(parts))  # type: ignore[arg-type]  # NumPy's stub
    return {"samples": stop - start}


def _commit(plan: Plan, parts: Iterator[Part]) -> dict[str, Any]:
    features = open_source(plan.options["source"]).features
    shapes = {name: feature.value_shape for name, feature in features.items()}
    totals: dict[str, Gathered] = {}
    for part in parts:
        with np.load(part.folder / _STATE_FILE, allow_pickle=False) as arrays:
            for name, gathered in unpacked(arrays, shapes).items():
                add_part(totals, name, gathered)
    # In the order of the dataset, whatever the order of the tasks.
    return {name: stats_to_json(totals[name].finish()) for name in features if name in totals}


OPERATION = Operation(run=_run, commit=_commit)
