"""The last step of an edit that tasks carried out: what they made becomes the dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.commit import Workshop, finish_commit, locked
from roboreel.edit.apply import edit_in_place, write_new
from roboreel.edit.encoding import join_encoded
from roboreel.edit.making import Made, finish_dataset, staged_place
from roboreel.edit.results import read_looks, read_places, read_rows
from roboreel.files import link_file, write_atomically
from roboreel.io.states import size_and_digest
from roboreel.jobs.folder import read_note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from roboreel.edit.edit_job import Work
    from roboreel.edit.making import Stage
    from roboreel.edit.targets import FileTarget
    from roboreel.schema import Manifest

    Folders = Mapping[int, Path]
    """By number of a work item, the folder of the task that did it."""

_NOTE = "published.json"


def commit_edit(
    options: Mapping[str, Any], folders: Folders, open_work: Callable[[], Work]
) -> dict[str, Any]:
    """Publish what tasks have made, unless that was done before a crash.

    Args:
        options: Those of the job.
        folders: By number of a work item, where its files are.
        open_work: Opens what the job makes.
    """
    out = None if options["out"] is None else Path(options["out"])
    root = Path(options["sources"][0]) if out is None else out
    note = folders[0] / _NOTE
    if out is None:
        # What was decided before a crash is done first: then it can be told what there is.
        workshop = Workshop(root)
        with locked(workshop):
            finish_commit(workshop)
    if not _is_published(note, root):
        _publish(open_work(), options, folders, note)
    said = read_note(note)
    return {"path": str(root), "episodes": said["episodes"], "frames": said["frames"]}


def file_of(target: FileTarget, place: Path) -> Path:
    """Return the name of a file that a task makes; writers choose a format by its ending."""
    return place.with_suffix(Path(target.file).suffix)


def _publish(work: Work, options: Mapping[str, Any], folders: Folders, note: Path) -> None:
    context = work.context

    def make(stage: Stage) -> Manifest:
        staged: dict[str, Path] = {}

        def remembering(file: str) -> Path:
            staged[file] = stage(file)
            return staged[file]

        manifest = _assemble(work, folders, remembering)
        _write_note(note, manifest, staged)
        return manifest

    def check() -> None:
        context.check_states(options["state"])

    if options["out"] is not None:
        write_new(context, Path(options["out"]), make, check)
    else:
        edit_in_place(context, make, check, summary=options["summary"])


def _assemble(work: Work, folders: Folders, stage: Stage) -> Manifest:
    """Put the files that tasks made in their places, and describe them."""
    context, made = work.context, Made()
    of_target: dict[tuple[bool, int], list[Path]] = {}
    for number, item in enumerate(work.items):
        part = folders[number] / str(number)
        if item.kind == "look":
            made.looks |= read_looks(part.with_suffix(".json"))
        else:
            of_target.setdefault((item.kind == "rows", item.target), []).append(part)
    for place, target in enumerate(context.layout.videos):
        _place_video(work, target, of_target[False, place], staged_place(target, stage, made), made)
    for place, target in enumerate(context.layout.data):
        (part,) = of_target[True, place]
        _place_file(work, target, part, staged_place(target, stage, made))
        made.rows.add(read_rows(part.with_suffix(".json"), work.wanted.total))
    return finish_dataset(context, made, stage)


def _place_video(
    work: Work, target: FileTarget, parts: Sequence[Path], out: Path | None, made: Made
) -> None:
    if target.rung == "re-encoded" and out is not None:
        encoded = [file_of(target, part) for part in parts]
        made.add_clips(target, join_encoded(work.context, target, encoded, out))
        return
    _place_file(work, target, parts[0], out)
    made.add_clips(target, read_places(parts[0].with_suffix(".json")))


def _place_file(work: Work, target: FileTarget, part: Path, out: Path | None) -> None:
    """Give a file its place; the part keeps it too, so that a commit can begin again."""
    if out is None:
        return
    if target.rung == "linked":
        source, path = target.sources[0]
        link_file(work.context.sources[source].root / path, out)
    else:
        link_file(file_of(target, part), out)


def _write_note(note: Path, manifest: Manifest, staged: Mapping[str, Path]) -> None:
    """Write down what the dataset will be, right before it is."""
    said = {
        "episodes": len(manifest.episodes),
        "frames": manifest.episodes.num_rows,
        "files": {file: size_and_digest(path) for file, path in staged.items()},
    }
    write_atomically(note, json.dumps(said))


def _is_published(note: Path, root: Path) -> bool:
    """Whether a dataset has every file that a commit was about to give it."""
    if not note.exists():
        return False
    files = read_note(note)["files"]
    return all(
        (root / f).is_file() and size_and_digest(root / f) == mark for f, mark in files.items()
    )
