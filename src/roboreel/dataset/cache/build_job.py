"""Building a training cache as a job: the numbers, then images part by part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from roboreel.cores import usable_cores
from roboreel.dataset.cache.build import (
    is_complete,
    plan_cache,
    publish,
    write_numbers,
    write_part,
)
from roboreel.dataset.cache.folder import LOCK_FILE, refuse_strangers
from roboreel.dataset.cache.pictures import picture_from_json, picture_to_json
from roboreel.dataset.job_source import decoding_s, describe_source, open_source, reading_s
from roboreel.files import make_folder, move_folder
from roboreel.jobs import Operation, Plan, cut
from roboreel.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roboreel.dataset.cache.manifest import CacheManifest
    from roboreel.dataset.cache.pictures import Picture
    from roboreel.dataset.dataset import Dataset
    from roboreel.jobs import Part, Task

_NUMBERS = -1


def plan_build(
    dataset: Dataset,
    root: Path,
    cameras: Mapping[str, Picture] | None = None,
    *,
    task_s: float | None = None,
) -> Plan:
    """Plan the cache of a dataset; see `Dataset.materialize`. All episodes are stored.

    Args:
        dataset: The dataset.
        root: A folder for the cache alone.
        cameras: `Jpeg` or `Raw` by camera, or by a pattern.
        task_s: About how long a task should take one core; by default see `target_cost`.

    Raises:
        CacheError: A pattern matches no camera, or the folder holds other files.
    """
    manifest = plan_cache(dataset, cameras)
    refuse_strangers(root)
    rows = np.full(manifest.num_parts, manifest.part_rows)
    if len(rows):
        rows[-1] = manifest.num_rows - manifest.part_rows * (len(rows) - 1)
    seconds = sum(
        (decoding_s(dataset, name, rows) for name in manifest.cameras), np.zeros(len(rows))
    )
    bounds = cut(seconds, np.arange(len(rows)), task_s)
    numbers_s = reading_s(dataset, manifest.numbers, np.array([manifest.num_rows]))
    images_s = np.add.reduceat(seconds, bounds[:-1]) if len(rows) else seconds
    options = {
        "source": {**describe_source(dataset), "episodes": None},
        "root": str(root.expanduser().absolute()),
        "cameras": {name: picture_to_json(picture) for name, picture in manifest.cameras.items()},
    }
    inputs = {
        "first": np.concatenate([[_NUMBERS], bounds[:-1]]),
        "stop": np.concatenate([[0], bounds[1:]]),
    }
    cost = np.concatenate([numbers_s, images_s])
    return Plan("roboreel.dataset.cache.build_job:OPERATION", options, inputs, cost)


def _wanted(options: Mapping[str, Any]) -> tuple[Dataset, CacheManifest]:
    dataset = open_source(options["source"])
    cameras = {name: picture_from_json(raw) for name, raw in options["cameras"].items()}
    return dataset, plan_cache(dataset, cameras)


def _run(task: Task, folder: Path) -> dict[str, Any]:
    dataset, manifest = _wanted(task.options)
    if task.inputs["first"] == _NUMBERS:
        write_numbers(dataset, folder, manifest)
        return {"rows": manifest.num_rows}
    with ThreadPool(usable_cores()) as pool:
        for part in range(task.inputs["first"], task.inputs["stop"]):
            write_part(dataset, folder, manifest, part, pool)
    return {"parts": task.inputs["stop"] - task.inputs["first"]}


def _commit(plan: Plan, parts: Iterator[Part]) -> dict[str, Any]:
    """Move all stores to the cache, then write its manifest. What was moved before stays."""
    _, manifest = _wanted(plan.options)
    root = Path(plan.options["root"])
    refuse_strangers(root)
    make_folder(root)
    with FileLock(str(root / LOCK_FILE)):
        if not is_complete(root, manifest):
            make_folder(root / manifest.key)
            for part in parts:
                for store in sorted(path for path in part.folder.iterdir() if path.is_dir()):
                    move_folder(store, root / manifest.key / store.name)
            publish(root, manifest)
    return {"path": str(root), "rows": manifest.num_rows, "cameras": len(manifest.cameras)}


OPERATION = Operation(run=_run, commit=_commit)
