"""An edit as plain values, so that another process or machine makes the same files."""

from __future__ import annotations

import base64
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit.context import EditContext
from roboreel.edit.recipe import CameraCoding, Piece, Recipe
from roboreel.edit.sources import Source
from roboreel.edit.targets import FileTarget, NewLayout
from roboreel.edit.tasks import plan_subtasks, plan_tasks
from roboreel.schema import Depth, FileSet
from roboreel.video.encoding import Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.edit.targets import Rung

_RUNGS: tuple[Rung, ...] = ("kept", "linked", "copied", "remuxed", "rewritten", "re-encoded")
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
        tuple(pieces), tuple(plain["names"]), codings=codings, **{key: plain[key] for key in given}
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
        "data": _files_to_plain(layout.data_files, layout.data_file, layout.data),
        "videos": {
            camera: _files_to_plain(
                files,
                layout.video_file[camera],
                [one for one in layout.videos if one.camera == camera],
            )
            for camera, files in layout.video_files.items()
        },
    }


def _layout_from_plain(
    plain: Mapping[str, Any], recipe: Recipe, sources: Sequence[Source]
) -> NewLayout:
    data_files, data_file, data = _files_from_plain(plain["data"], recipe, sources, None)
    video_files, video_file, videos = {}, {}, []
    for camera, given in plain["videos"].items():
        files, file, targets = _files_from_plain(given, recipe, sources, camera)
        video_files[camera], video_file[camera] = files, file
        videos += targets
    return NewLayout(
        version=plain["version"],
        fps=plain["fps"],
        start=_unpack(plain["start"]),
        length=_unpack(plain["length"]),
        data=tuple(data),
        videos=tuple(videos),
        data_files=data_files,
        data_file=data_file,
        video_files=video_files,
        video_file=video_file,
    )


def _files_to_plain(
    files: FileSet, file: NDArray[np.int64], targets: Sequence[FileTarget]
) -> dict[str, Any]:
    return {
        "template": files.template,
        "numbers": {name: _pack(column) for name, column in files.numbers.items()},
        "constants": dict(files.constants),
        "file": _pack(file),
        "pieces": _pack([number for target in targets for number in target.pieces]),
        "counts": _pack([len(target.pieces) for target in targets]),
        "rungs": _pack([_RUNGS.index(target.rung) for target in targets]),
        "sizes": _pack([target.size_bytes for target in targets]),
    }


def _files_from_plain(
    plain: Mapping[str, Any], recipe: Recipe, sources: Sequence[Source], camera: str | None
) -> tuple[FileSet, NDArray[np.int64], list[FileTarget]]:
    numbers = {name: _unpack(packed) for name, packed in plain["numbers"].items()}
    files = FileSet(plain["template"], numbers, plain["constants"])
    pieces, counts = _unpack(plain["pieces"]), _unpack(plain["counts"])
    bounds = np.cumsum(counts)[:-1]
    columns = (_unpack(plain[name]).tolist() for name in ("rungs", "sizes"))
    targets = []
    for place, (own, rung, size) in enumerate(
        zip(np.split(pieces, bounds) if len(counts) else [], *columns, strict=True)
    ):
        held = tuple(own.tolist())
        old = _old_files(recipe, sources, held, camera)
        targets.append(FileTarget(files[place], _RUNGS[rung], held, old, size, camera))
    return files, _unpack(plain["file"]), targets


def _old_files(
    recipe: Recipe, sources: Sequence[Source], pieces: Sequence[int], camera: str | None
) -> tuple[tuple[int, str], ...]:
    """Return the files that pieces lie in, each once, in the order in which they are needed."""
    found: dict[tuple[int, int], str] = {}
    for number in pieces:
        piece = recipe.pieces[number]
        manifest = sources[piece.source].manifest
        if camera is None:
            files, file = manifest.data_files, manifest.episodes.data_file
        else:
            names = recipe.names[piece.source]
            old = next((o for o, new in names.items() if new == camera), camera)
            files, file = manifest.video_files[old], manifest.episodes.clips[old].file
        place = int(file[piece.episode])
        if (piece.source, place) not in found:
            found[piece.source, place] = files[place]
    return tuple((source, path) for (source, _), path in found.items())


def _pack(numbers: Sequence[int] | NDArray[np.int64]) -> str:
    """Return whole numbers as a short text: numbers that ascend evenly take next to nothing."""
    steps = np.diff(np.asarray(numbers, "<i8"), prepend=0).astype("<i8")
    return base64.b64encode(zlib.compress(steps.tobytes(), 6)).decode()


def _unpack(text: str) -> NDArray[np.int64]:
    steps = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i8")
    return np.cumsum(steps, dtype=np.int64)
