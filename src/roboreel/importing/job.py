"""Several recordings as a job: each task imports some of them, and the parts are merged."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit import plan_merge
from roboreel.errors import FolderTakenError, SourceError
from roboreel.files import atomic_folder, copy_tree, walk
from roboreel.importing.defaults import changed_map, task_stream
from roboreel.importing.mapping import Changes, TaskRule
from roboreel.importing.mapping_file import map_from_json, map_to_json
from roboreel.importing.opening import open_recording
from roboreel.importing.planning import plan_import
from roboreel.importing.provenance import (
    describe_source,
    import_key,
    read_provenance,
    write_provenance,
)
from roboreel.importing.writing import add_episodes, new_recorder
from roboreel.jobs import Operation, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roboreel.importing.mapping import FeatureMap, ImportMap
    from roboreel.importing.plan import ImportPlan
    from roboreel.importing.recording import Recording
    from roboreel.jobs import Part, Task
    from roboreel.record.recorder import Recorder
    from roboreel.schema import Feature


_DATASET = "dataset"
_TASK_BYTES = 256 * 1024**2
_BYTES_PER_S = 20e6


def plan_job(
    sources: Sequence[Path], out: Path, mapping: ImportMap | None, changes: Changes
) -> Plan:
    """Return the tasks that import recordings; small ones share a task."""
    shared = first_map(sources[0], changes) if mapping is None else None
    sizes = [_size(path) for path in sources]
    groups: list[list[int]] = []
    for number, size in enumerate(sizes):
        if groups and sum(sizes[i] for i in groups[-1]) + size <= _TASK_BYTES:
            groups[-1].append(number)
        else:
            groups.append([number])
    return Plan(
        "roboreel.importing.job:OPERATION",
        {
            "out": str(out),
            "mapping": None if mapping is None else map_to_json(mapping),
            "shared": None if shared is None else map_to_json(shared),
            "changes": asdict(changes),
        },
        {"sources": np.array([json.dumps([str(sources[i]) for i in group]) for group in groups])},
        np.array([sum(sizes[i] for i in group) / _BYTES_PER_S for group in groups]),
    )


def _run(task: Task, folder: Path) -> Mapping[str, Any]:
    """Import some recordings, one after the other, into one dataset."""
    given = (task.options["mapping"], task.options.get("shared"))
    mapping, shared = (None if raw is None else map_from_json(raw) for raw in given)
    changes = Changes(**task.options["changes"])
    described: list[dict[str, Any]] = []
    recorder: Recorder | None = None
    first: ImportPlan | None = None
    try:
        for path in json.loads(task.inputs["sources"]):
            with open_recording(path, distro=changes.distro) as recording:
                chosen = mapping or fitted_map(recording, shared)
                plan = plan_import(recording, changed_map(recording, chosen, changes))
                recorder = recorder or new_recorder(plan, folder / _DATASET)
                first = first or plan
                if difference := _difference(first, plan):
                    raise SourceError(
                        f"It does not fit the recordings before it: {difference}. Give "
                        f"a mapping that fits all: {str(path)!r}."
                    )
                add_episodes(recorder, recording, plan)
                described.append(describe_source(plan, import_key(plan), complete=True))
    finally:
        if recorder is not None:
            recorder.close()
    frames = sum(e["frames"] for source in described for e in source["episodes"])
    return {"sources": described, "frames": frames}


def _commit(plan: Plan, parts: Iterator[Part]) -> dict[str, Any]:
    """Merge the parts beside the dataset's place, and move the whole there."""
    out = Path(str(plan.options["out"]))
    listed = list(parts)
    sources = [source for part in listed for source in part.summary["sources"]]
    frames = sum(int(part.summary["frames"]) for part in listed)
    result = {
        "path": str(out),
        "episodes": sum(len(source["episodes"]) for source in sources),
        "frames": frames,
    }
    there = read_provenance(out)
    if there is not None and there["sources"] == sources:
        return result  # A commit that was interrupted right before it ended.
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FolderTakenError(f"{str(out)!r} already exists: choose a new folder.")
    folders = [part.folder / _DATASET for part in listed]
    with atomic_folder(out) as staged:
        if len(folders) == 1:
            copy_tree(folders[0], staged)
        else:
            plan_merge(folders, staged).apply()
        write_provenance(staged, sources, complete=True)
    return result


OPERATION = Operation(_run, _commit)


def _difference(one: ImportPlan, other: ImportPlan) -> str:
    """Return why two recordings cannot become episodes of one dataset; nothing if they can."""
    if one.fps != other.fps:
        return f"it has {other.fps:g} frames a second instead of {one.fps:g}"
    for name in [*one.features, *other.features]:
        if name not in other.features:
            return f"it has no {name!r}"
        if name not in one.features:
            return f"they have no {name!r}"
        ours, theirs = one.features[name].feature, other.features[name].feature
        if ours != theirs:
            return f"{name!r} is {_said(theirs)} instead of {_said(ours)}"
    return ""


def _said(feature: Feature) -> str:
    names = f" ({', '.join(feature.names)})" if feature.names else ""
    return f"{feature.dtype} {'x'.join(map(str, feature.shape))}{names}"


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in walk(path) if file.is_file())


# One mapping for several recordings, where nobody gives one.


def first_map(source: Path, changes: Changes) -> ImportMap | None:
    """Return the mapping that a recording and those after it get; None if each gets its own.

    Which topics fill frames, at which rate, and in which order joints are listed depends on what
    happened to be recorded. In a recording of steps it does not.

    Args:
        source: The first recording.
        changes: What was asked for.
    """
    with open_recording(source, distro=changes.distro) as recording:
        if not recording.timed:
            return None
        mapping = plan_import(recording, changed_map(recording, None, changes)).mapping
        features = {name: _by_name(recording, one) for name, one in mapping.features.items()}
    return replace(mapping, features=features)


def fitted_map(recording: Recording, shared: ImportMap | None) -> ImportMap | None:
    """Return the mapping of several recordings for one of them, which may tell its task otherwise."""
    if shared is None:
        return None
    return replace(shared, task=TaskRule(shared.task.text, task_stream(recording)))


def _by_name(recording: Recording, one: FeatureMap) -> FeatureMap:
    """Return a feature whose joints are found by their names."""
    stream = recording.streams[one.streams[0]]
    is_joints = stream.source_type.endswith("JointState") and len(one.streams) == 1
    if not is_joints or stream.names is None or one.elements is not None:
        return one
    return replace(one, elements=stream.names)
