"""From recordings of another format to a dataset, in one call; several are a job, whose parts are merged."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit import plan_merge
from roboreel.errors import FolderTakenError, SourceError
from roboreel.files import atomic_folder, copy_tree
from roboreel.format.hub import writable_folder
from roboreel.importing.defaults import changed_map, task_stream
from roboreel.importing.mapping import Changes, TaskRule
from roboreel.importing.mapping_file import map_from_json, map_to_json, read_map
from roboreel.importing.opening import find_sources, open_recording
from roboreel.importing.planning import plan_import
from roboreel.importing.provenance import (
    describe_source,
    read_provenance,
    size_of,
    write_provenance,
)
from roboreel.importing.writing import Imported, add_episodes, new_recorder, write_dataset
from roboreel.jobs import Operation, Plan, execute

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from roboreel.importing.mapping import FeatureMap, ImportMap
    from roboreel.importing.plan import ImportPlan
    from roboreel.importing.recording import Recording
    from roboreel.jobs import Executor, Part, Task
    from roboreel.record.recorder import Recorder
    from roboreel.schema import Feature

    Source = str | os.PathLike[str]


_DATASET = "dataset"
_TASK_BYTES = 256 * 1024**2
_BYTES_PER_S = 20e6


def import_dataset(
    source: Source | Sequence[Source],
    out: Source,
    *,
    mapping: ImportMap | Source | None = None,
    changes: Changes | None = None,
    on: Executor | None = None,
    job: Source | None = None,
    on_progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> Imported:
    """Import recordings of another format as a new LeRobot v3.0 dataset.

    If it is interrupted, even by a power cut, the same call goes on: after the last whole episode of
    a recording, or with the tasks that are not done of several.

    Args:
        source: A recording, a folder of recordings, or several of either.
        out: A new folder.
        mapping: Which feature comes from which stream: an `ImportMap`, or a TOML file; None to go by
            layout and names.
        changes: What counts for all features, such as ``Changes(fps=30, task="…")``.
        on: Where several recordings are imported; by default in a process for each core.
        job: The folder in which several recordings are imported, shared by all workers.
        on_progress: Called with the frames that are done and all of them; for several recordings,
            with tasks.

    Raises:
        SourceError: A recording cannot be imported as asked.
        CorruptFileError: A recording is damaged.
        FolderTakenError: The folder holds something else.
        ModuleNotFoundError: A format needs a library of an extra, which is named.
    """
    given = [source] if isinstance(source, str | Path) or hasattr(source, "__fspath__") else source
    sources = find_sources(list(given))
    root = writable_folder(out)
    read = read_map(Path(mapping)) if isinstance(mapping, str | Path) else mapping
    wanted = changes or Changes()
    if len(sources) == 1:
        with open_recording(sources[0], distro=wanted.distro) as recording:
            plan = plan_import(recording, changed_map(recording, read, wanted))  # type: ignore[arg-type]
            return write_dataset(recording, plan, root, on_progress=on_progress)
    if read_provenance(root) is None and root.exists() and any(root.iterdir()):
        raise FolderTakenError(f"{str(root)!r} already exists: choose a new folder.")
    tasks = plan_job(sources, root, read, wanted)  # type: ignore[arg-type]
    result = execute(
        tasks,
        on=on,
        folder=job,
        name="import",
        on_progress=lambda now: on_progress(now.done, now.total),
    )
    return Imported(root, int(result["episodes"]), int(result["frames"]))


def plan_job(
    sources: Sequence[Path], out: Path, mapping: ImportMap | None, changes: Changes
) -> Plan:
    """Return the tasks that import recordings; small ones share a task."""
    shared = first_map(sources[0], changes) if mapping is None else None
    sizes = [size_of(path) for path in sources]
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
                described.append(describe_source(plan, complete=True))
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
    result = {
        "path": str(out),
        "episodes": sum(len(source["episodes"]) for source in sources),
        "frames": sum(int(part.summary["frames"]) for part in listed),
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


def _difference(first: ImportPlan, other: ImportPlan) -> str:
    """Return why two recordings cannot become episodes of one dataset; nothing if they can."""
    if first.fps != other.fps:
        return f"it has {other.fps:g} frames a second instead of {first.fps:g}"
    for name in [*first.features, *other.features]:
        if name not in other.features:
            return f"it has no {name!r}"
        if name not in first.features:
            return f"they have no {name!r}"
        expected, own = first.features[name].feature, other.features[name].feature
        if expected != own:
            return f"{name!r} is {_in_words(own)} instead of {_in_words(expected)}"
    return ""


def _in_words(feature: Feature) -> str:
    names = f" ({', '.join(feature.names)})" if feature.names else ""
    return f"{feature.dtype} {'x'.join(map(str, feature.shape))}{names}"


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
