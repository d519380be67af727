"""From recordings of another format to a dataset, in one call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import FolderTakenError
from roboreel.format.hub import writable_folder
from roboreel.importing.defaults import changed_map
from roboreel.importing.job import plan_job
from roboreel.importing.mapping import Changes
from roboreel.importing.mapping_file import read_map
from roboreel.importing.opening import find_sources, open_recording
from roboreel.importing.planning import plan_import
from roboreel.importing.provenance import read_provenance
from roboreel.importing.writing import Imported, write_dataset
from roboreel.jobs import execute

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from roboreel.importing.mapping import ImportMap
    from roboreel.jobs import Executor

    Source = str | os.PathLike[str]


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
