"""An edit, and what was learnt by a part of it, as plain values: for other processes and machines."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit.context import EditContext
from roboreel.edit.encoding import ClipPlace
from roboreel.edit.layout import FileTarget, NewFiles, NewLayout
from roboreel.edit.recipe import CameraCoding, Piece, Recipe
from roboreel.edit.rows import RowsResult
from roboreel.edit.sources import Source
from roboreel.edit.tasks import plan_subtasks, plan_tasks
from roboreel.format.stats_json import stats_from_json, stats_to_json
from roboreel.jobs.folder import read_note
from roboreel.schema import Depth, FileSet
from roboreel.stats import Accumulator
from roboreel.video.encoding import Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.edit.work import Kind
    from roboreel.format.edits import How
    from roboreel.stats import FeatureStats

    EpisodeStats = Mapping[int, Mapping[str, FeatureStats]]

_HOWS: tuple[How, ...] = ("kept", "linked", "copied", "remuxed", "rewritten", "re-encoded")
_SPANS = ("source", "episode", "start", "stop", "frames")


def context_to_plain(context: EditContext) -> dict[str, Any]:
    """Return an edit as plain values."""
    return {
        "sources": [str(source.root.resolve()) for source in context.sources],
        "in_place": context.in_place,
        "recipe": _recipe_to_plain(context.recipe),
        "layout": _layout_to_plain(context.layout),
    }


def context_from_plain(plain: Mapping[str, Any]) -> EditContext:
    """Return the edit that `context_to_plain` described; its sources are opened."""
    sources = tuple(Source(path) for path in plain["sources"])
    manifests = [source.manifest for source in sources]
    recipe = _recipe_from_plain(plain["recipe"])
    layout = _layout_from_plain(plain["layout"], recipe, sources)
    tasks, subtasks = plan_tasks(recipe, manifests), plan_subtasks(manifests)
    return EditContext(recipe, sources, tasks, subtasks, layout, in_place=plain["in_place"])


def _recipe_to_plain(recipe: Recipe) -> dict[str, Any]:
    told = {
        str(number): [
            piece.task,
            [list(pair) for pair in piece.retold],
            [list(pair) for pair in piece.columns],
        ]
        for number, piece in enumerate(recipe.pieces)
        if piece.task is not None or piece.retold or piece.columns
    }
    return {
        "pieces": {name: _pack([getattr(p, name) for p in recipe.pieces]) for name in _SPANS},
        "told": told,
        "names": [dict(names) for names in recipe.names],
        "version": recipe.version,
        "fps": recipe.fps,
        "codings": {name: _coding_to_plain(one) for name, one in recipe.codings.items()},
        "padded": dict(recipe.padded),
        "reencode": recipe.reencode,
        "scrub": recipe.scrub,
        "anew": recipe.anew,
    }


def _recipe_from_plain(plain: Mapping[str, Any]) -> Recipe:
    spans = zip(*(_unpack(plain["pieces"][name]).tolist() for name in _SPANS), strict=True)
    pieces = []
    for number, span in enumerate(spans):
        task, retold, columns = plain["told"].get(str(number), (None, (), ()))
        piece = Piece(
            **dict(zip(_SPANS, span, strict=True)),
            task=task,
            retold=tuple((old, new) for old, new in retold),
            columns=tuple((name, value) for name, value in columns),
        )
        pieces.append(piece)
    given = ("version", "fps", "padded", "reencode", "scrub")
    codings = {name: _coding_from_plain(one) for name, one in plain["codings"].items()}
    return Recipe(
        tuple(pieces),
        tuple(plain["names"]),
        codings=codings,
        anew=plain.get("anew", False),  # earlier jobs do not say
        **{key: plain[key] for key in given},
    )


def _coding_to_plain(coding: CameraCoding) -> dict[str, Any]:
    size = None if coding.size is None else list(coding.size)
    return {"encoding": None if coding.encoding is None else asdict(coding.encoding), "size": size}


def _coding_from_plain(plain: Mapping[str, Any]) -> CameraCoding:
    size = None if plain["size"] is None else (plain["size"][0], plain["size"][1])
    given = plain["encoding"]
    if given is None:
        return CameraCoding(None, size)
    depth = None if given["depth"] is None else Depth(**given["depth"])
    return CameraCoding(Encoding(**{**given, "depth": depth}), size)


def _layout_to_plain(layout: NewLayout) -> dict[str, Any]:
    return {
        "version": layout.version,
        "fps": layout.fps,
        "start": _pack(layout.start),
        "length": _pack(layout.length),
        "data": _files_to_plain(layout.kinds[None]),
        "videos": {camera: _files_to_plain(layout.kinds[camera]) for camera in layout.cameras},
    }


def _layout_from_plain(
    plain: Mapping[str, Any], recipe: Recipe, sources: Sequence[Source]
) -> NewLayout:
    kinds = {None: plain["data"], **plain["videos"]}
    return NewLayout(
        plain["version"],
        plain["fps"],
        _unpack(plain["start"]),
        _unpack(plain["length"]),
        {kind: _files_from_plain(own, recipe, sources, kind) for kind, own in kinds.items()},
    )


def _files_to_plain(kind: NewFiles) -> dict[str, Any]:
    files, targets = kind.files, kind.targets
    return {
        "template": files.template,
        "numbers": {name: _pack(column) for name, column in files.numbers.items()},
        "constants": dict(files.constants),
        "file": _pack(kind.file),
        "pieces": _pack([number for target in targets for number in target.pieces]),
        "counts": _pack([len(target.pieces) for target in targets]),
        "rungs": _pack([_HOWS.index(target.how) for target in targets]),
        "sizes": _pack([target.size_bytes for target in targets]),
    }


def _files_from_plain(
    plain: Mapping[str, Any], recipe: Recipe, sources: Sequence[Source], camera: str | None
) -> NewFiles:
    numbers = {name: _unpack(packed) for name, packed in plain["numbers"].items()}
    files = FileSet(plain["template"], numbers, plain["constants"])
    columns = (_unpack(plain[name]).tolist() for name in ("counts", "rungs", "sizes"))
    pieces = iter(_unpack(plain["pieces"]).tolist())
    targets = []
    for place, (count, how, size) in enumerate(zip(*columns, strict=True)):
        own = tuple(islice(pieces, count))
        target = FileTarget(
            files[place],
            how=_HOWS[how],
            pieces=own,
            sources=_old_files(recipe, sources, own, camera),
            size_bytes=size,
            camera=camera,
        )
        targets.append(target)
    return NewFiles(files, _unpack(plain["file"]), tuple(targets))


def _old_files(
    recipe: Recipe, sources: Sequence[Source], pieces: Sequence[int], camera: str | None
) -> tuple[tuple[int, str], ...]:
    """Return the files that pieces lie in, each once, in the order in which they are needed."""
    found = {}
    for piece in (recipe.pieces[number] for number in pieces):
        names = recipe.names[piece.source]
        old = next((o for o, new in names.items() if new == camera and camera), camera)
        stored = sources[piece.source].stored(old)
        found[piece.source, int(stored.file[piece.episode])] = stored.path_of(piece.episode)
    return tuple((source, path) for (source, _), path in found.items())


def _pack(numbers: Sequence[int] | NDArray[np.int64]) -> str:
    """Return whole numbers as a short text: numbers that ascend evenly take next to nothing."""
    steps = np.diff(np.asarray(numbers, "<i8"), prepend=0).astype("<i8")
    return base64.b64encode(zlib.compress(steps.tobytes(), 6)).decode()


def _unpack(text: str) -> NDArray[np.int64]:
    steps = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i8")
    return np.cumsum(steps, dtype=np.int64)


def write_result(place: Path, kind: Kind, result: Any) -> None:  # noqa: ANN401  # by the kind
    """Write what `Work.make` returned beside the file that it made; nothing for encoded parts."""
    if kind == "video":
        _write(place, {number: list(clip) for number, clip in result.items()})
    elif kind == "look":
        _write(place, _stats_to_plain(result))
    elif kind == "rows":
        arrays = {
            f"{name}/{key}": array
            for name, total in result.totals.items()
            for key, array in total.state().items()
        }
        np.savez(place.with_suffix(".npz"), **arrays)
        said = {
            "tasks": result.tasks,
            "stats": _stats_to_plain(result.stats),
            "lost": sorted(result.lost),
            "totals": list(result.totals),
        }
        _write(place, said)


def read_result(place: Path, kind: Kind, shapes: Mapping[str, tuple[int, ...]]) -> Any:  # noqa: ANN401
    """Return what `write_result` wrote.

    Args:
        place: Where the item was made.
        kind: What the item is.
        shapes: Of the statistics of all rows, by feature.
    """
    said = read_note(place.with_suffix(".json"))
    if kind == "video":
        return {int(number): ClipPlace(*clip) for number, clip in said.items()}
    if kind == "look":
        return _stats_from_plain(said)
    with np.load(place.with_suffix(".npz"), allow_pickle=False) as arrays:
        held = {name: arrays[name] for name in arrays.files}
    totals = {}
    for name in said["totals"]:
        own = {key.rpartition("/")[2]: held[key] for key in held if key.rpartition("/")[0] == name}
        totals[name] = Accumulator.from_state(shapes[name], own)
    tasks = {int(number): tuple(own) for number, own in said["tasks"].items()}
    return RowsResult(tasks, _stats_from_plain(said["stats"]), totals, set(said["lost"]))


def _stats_to_plain(stats: EpisodeStats) -> dict[int, dict[str, Any]]:
    return {
        number: {name: stats_to_json(one) for name, one in own.items()}
        for number, own in stats.items()
    }


def _stats_from_plain(plain: Mapping[str, Any]) -> dict[int, dict[str, FeatureStats]]:
    return {
        int(number): {name: stats_from_json(name, raw, "a job") for name, raw in own.items()}
        for number, own in plain.items()
    }


def _write(place: Path, said: Mapping[Any, Any]) -> None:
    place.with_suffix(".json").write_text(json.dumps(said), encoding="utf-8")
