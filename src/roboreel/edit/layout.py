"""Which files the new dataset has, and how each is made the cheapest way. Pure: no file is opened here."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from roboreel.edit.recipe import frames_at_rate
from roboreel.edit.sources import is_per_episode
from roboreel.edit.targets import FileTarget, NewLayout
from roboreel.edit.units import Held, Unit, merged_units
from roboreel.errors import EditError
from roboreel.format.limits import file_limits
from roboreel.format.places import place_files

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.edit.recipe import Piece, Recipe
    from roboreel.edit.targets import Facts
    from roboreel.edit.tasks import TaskPlan
    from roboreel.schema import FileSet, Manifest


def lay_out(
    recipe: Recipe, sources: Sequence[Facts], tasks: TaskPlan, *, in_place: bool, link: bool = False
) -> NewLayout:
    """Return the files of the new dataset.

    Args:
        recipe: What it is made of.
        sources: What the recipe's pieces refer to.
        tasks: How its tasks are numbered.
        in_place: Whether it replaces the first source.
        link: Whether files of a copy may share their bytes with those of the source.

    Raises:
        EditError: A clip cannot be cut without encoding it again, and that is not allowed.
    """
    return _Planner(recipe, sources, tasks, in_place, link).plan()


def new_names(manifest: Manifest, names: Mapping[str, str | None]) -> dict[str, str]:
    """Return the features of a source that stay: old name by new name, in the order of the source."""
    named = ((names.get(name, name), name) for name in manifest.features)
    return {new: old for new, old in named if new is not None}


class _Planner:
    def __init__(
        self,
        recipe: Recipe,
        sources: Sequence[Facts],
        tasks: TaskPlan,
        in_place: bool,
        link: bool,
    ) -> None:
        self._recipe, self._sources, self._tasks = recipe, sources, tasks
        self._in_place, self._link = in_place, link
        self._first = sources[0].manifest
        self._version = recipe.version or self._first.version
        self._fps = recipe.fps or self._first.fps
        self._converts = self._version[:2] != self._first.version[:2]
        self.length = np.array(
            [len(frames_at_rate(p, self._of(p).fps, recipe.fps)) for p in recipe.pieces], np.int64
        )
        self.start = self._starts()
        # Asked for with every episode.
        self._old_names = cache(self._read_old_names)
        self._held = cache(self._count_held)

    def plan(self) -> NewLayout:
        """Return the files of the new dataset."""
        data_files, data_file, data = self._data()
        video_files, video_file, videos = {}, {}, []
        for camera in self._cameras():
            files, file, targets = self._video(camera)
            video_files[camera], video_file[camera] = files, file
            videos += targets
        return NewLayout(
            version=self._version,
            fps=self._fps,
            start=self.start,
            length=self.length,
            data=tuple(data),
            videos=tuple(videos),
            data_files=data_files,
            data_file=data_file,
            video_files=video_files,
            video_file=video_file,
        )

    def _of(self, piece: Piece) -> Manifest:
        return self._sources[piece.source].manifest

    def _old(self, piece: Piece, camera: str) -> str:
        """Return the name of a camera in the source of a piece."""
        return self._old_names(piece.source)[camera]

    def _read_old_names(self, source: int) -> dict[str, str]:
        return new_names(self._sources[source].manifest, self._recipe.names[source])

    def _count_held(self, source: int, camera: str | None) -> Held:
        """Return what the files of a source hold: of a camera, by its new name, or of data."""
        episodes = self._sources[source].manifest.episodes
        if camera is None:
            return Held.of(episodes.data_file, episodes.length)
        return Held.of(episodes.clips[self._old_names(source)[camera]].file, episodes.length)

    def _cameras(self) -> list[str]:
        names = new_names(self._first, self._recipe.names[0])
        features = self._first.features
        absent = self._first.absent_cameras
        return [n for n, old in names.items() if features[old].is_video and old not in absent]

    def _starts(self) -> NDArray[np.int64]:
        """Return the first row of each new episode; rows stay in the order that they have."""
        pieces = self._recipe.pieces
        keys = [(p.start, int(self._of(p).episodes.start[p.episode]), p.source) for p in pieces]
        order = np.lexsort(np.array(keys, np.int64).T) if keys else np.empty(0, np.int64)
        start = np.empty(len(pieces), np.int64)
        start[order] = np.cumsum(self.length[order]) - self.length[order]
        return start

    # Data files

    def _data(self) -> tuple[FileSet, NDArray[np.int64], list[FileTarget]]:
        files_of = [source.manifest.data_files for source in self._sources]
        file_of = [source.manifest.episodes.data_file for source in self._sources]
        limit = file_limits(self._first).data_bytes
        units = list(self._units(files_of, file_of, limit, None))
        same = [self._is_same_data(unit) for unit in units]
        # LeRobot reads rows in the order of the names: after a file with a new name, all have one.
        files, file = self._name(units, files_of[0], None, list(accumulate(same, min)))
        targets = []
        for place, unit in enumerate(units):
            size = self._share(unit, None)
            target = FileTarget(files[place], "rewritten", unit.pieces, unit.sources, size)
            targets.append(self._whole(target) if same[place] else target)
        return files, file, targets

    def _is_same_data(self, unit: Unit) -> bool:
        """Whether a file has all rows of an old one, and none of them changes."""
        recipe = self._recipe
        if len(unit.sources) != 1 or unit.sources[0][0] or self._converts or recipe.fps is not None:
            return False
        stored = {n for n, f in self._first.features.items() if not f.is_video}
        if any(name in stored or name not in self._first.features for name in recipe.names[0]):
            return False
        return self._has_all(unit, None) and all(self._keeps_rows(number) for number in unit.pieces)

    def _keeps_rows(self, number: int) -> bool:
        piece, episodes = self._recipe.pieces[number], self._first.episodes
        return (
            piece.is_whole
            and episodes.number[piece.episode] == number
            and episodes.start[piece.episode] == self.start[number]
            and not self._tasks.changes(piece, episodes.tasks_of(piece.episode))
        )

    def _has_all(self, unit: Unit, camera: str | None) -> bool:
        """Whether a unit has every frame of the file that it comes from, in one source."""
        pieces = [self._recipe.pieces[number] for number in unit.pieces]
        there = self._held(pieces[0].source, camera).episodes_with(pieces[0].episode)
        whole = all(piece.is_whole for piece in pieces)
        return whole and len(pieces) == len({piece.episode for piece in pieces}) == there

    # Videos

    def _video(self, camera: str) -> tuple[FileSet, NDArray[np.int64], list[FileTarget]]:
        old = [self._old_names(source)[camera] for source in range(len(self._sources))]
        files_of = [
            s.manifest.video_files[name] for s, name in zip(self._sources, old, strict=True)
        ]
        file_of = [
            s.manifest.episodes.clips[name].file for s, name in zip(self._sources, old, strict=True)
        ]
        limit = file_limits(self._first).video_bytes
        units = list(self._units(files_of, file_of, limit, camera))
        grouped = not self._is_alone(files_of[0])
        same = [self._is_same_video(unit, camera, grouped) for unit in units]
        files, file = self._name(units, files_of[0], camera, same)
        targets = []
        for place, unit in enumerate(units):
            size = self._share(unit, camera)
            target = FileTarget(files[place], "remuxed", unit.pieces, unit.sources, size, camera)
            whole = self._whole(target) if same[place] else None
            targets.append(whole or self._with_rung(target, unit, grouped))
        return files, file, targets

    def _is_same_video(self, unit: Unit, camera: str, grouped: bool) -> bool:
        """Whether a file can have the bytes of an old one."""
        recipe = self._recipe
        if recipe.fps is not None or camera in recipe.codings or len(unit.sources) != 1:
            return False
        if grouped and unit.place is not None and not recipe.scrub:
            return True
        return self._has_all(unit, camera) and not self._shows_more(
            camera, recipe.pieces[unit.pieces[0]]
        )

    def _with_rung(self, target: FileTarget, unit: Unit, grouped: bool) -> FileTarget:
        recipe = self._recipe
        pieces = [recipe.pieces[number] for number in unit.pieces]
        if recipe.fps is not None or target.camera in recipe.codings:
            return replace(target, rung="re-encoded")
        # A clip may begin between keyframes: in v2.x an edit list hides what is before it.
        if not recipe.scrub and (grouped or self._key(unit, target.camera) is not None):
            return target
        exact = [self._is_exact(piece, str(target.camera), grouped) for piece in pieces]
        return target if all(exact) else replace(target, rung="re-encoded")

    def _shows_more(self, camera: str, piece: Piece) -> bool:
        """Whether an old file has images that would come along and must not."""
        source, old = self._sources[piece.source], self._old(piece, camera)
        if is_per_episode(source.manifest.video_files[old]) and not self._recipe.scrub:
            return False
        return source.has_unused(old, piece.episode)

    def _is_exact(self, piece: Piece, camera: str, grouped: bool) -> bool:
        """Whether the packets of a piece can be cut out; raise if they cannot and must be."""
        source, old = self._sources[piece.source], self._old(piece, camera)
        cut = source.cut(old, piece.episode, piece.start, piece.stop, joined=grouped)
        if cut.is_exact or (self._recipe.reencode and not grouped):
            return cut.is_exact
        number = int(source.manifest.episodes.number[piece.episode])
        where = f"at the frames {_few(cut.starts)}" if cut.starts else "nowhere"
        raise EditError(
            f"Frames {piece.start} to {piece.stop} of episode {number} of {old!r} cannot become a file "
            f"of their own without encoding them again: a lossless cut can start {where}, and must "
            "end where no later image is needed. Choose such a frame"
            + ("." if grouped else ", or allow it with --reencode (reencode=True).")
        )

    def _whole(self, target: FileTarget) -> FileTarget:
        """Return a file that has the bytes of an old one."""
        if self._in_place:
            same = target.sources[0] == (0, target.file)
            return replace(target, rung="kept" if same else "linked")
        return replace(target, rung="linked" if self._link else "copied")

    # Both

    def _units(
        self,
        files_of: Sequence[FileSet],
        file_of: Sequence[NDArray[np.int64]],
        limit: int,
        camera: str | None,
    ) -> Iterator[Unit]:
        """Yield the new files, in the order of their rows."""
        pieces = self._recipe.pieces
        alone = self._is_alone(files_of[0])
        held: dict[tuple[int, int], list[int]] = {}
        for number in np.argsort(self.start, kind="stable").tolist():
            piece = pieces[number]
            file = int(file_of[piece.source][piece.episode])
            key = (piece.source, number if alone else file)
            held.setdefault(key, []).append(number)
        units = []
        for (source, _), numbers in held.items():
            file = int(file_of[source][pieces[numbers[0]].episode])
            path = (source, files_of[source][file])
            units.append(Unit(tuple(numbers), (path,), None if alone else file))
        if alone:
            yield from units
            return
        yield from self._joined(units, files_of, limit, camera)

    def _is_alone(self, files: FileSet) -> bool:
        """Whether each new episode has files of its own."""
        return is_per_episode(files) if not self._converts else not self._version.startswith("v3")

    def _joined(
        self, units: Sequence[Unit], files_of: Sequence[FileSet], limit: int, camera: str | None
    ) -> Iterator[Unit]:
        """Yield units; those of sources with a file per episode are joined up to a size."""
        held: list[Unit] = []
        size, key = 0, None
        for unit in units:
            source = unit.sources[0][0]
            if not is_per_episode(files_of[source]):
                yield from merged_units(held)
                held, size = [], 0
                yield unit
                continue
            its_size, its_key = self._share(unit, camera), self._key(unit, camera)
            fits = held and its_key is not None and its_key == key and size + its_size <= limit
            if not fits:
                yield from merged_units(held)
                held, size = [], 0
            held.append(unit)
            size, key = size + its_size, its_key
        yield from merged_units(held)

    def _key(self, unit: Unit, camera: str | None) -> Hashable:
        if camera is None or self._recipe.fps is not None or camera in self._recipe.codings:
            return True
        piece = self._recipe.pieces[unit.pieces[0]]
        return self._sources[piece.source].coding(self._old(piece, camera), piece.episode)

    def _share(self, unit: Unit, camera: str | None) -> int:
        """Return how large a new file will be, about: as many bytes per frame as the old ones."""
        size = sum(self._sources[source].size_bytes(path) for source, path in unit.sources)
        if camera is not None and unit.place is not None and not self._recipe.scrub:
            return size  # what no longer belongs to an episode stays in the file
        if len(unit.sources) > 1:
            return size
        first = self._recipe.pieces[unit.pieces[0]]
        total = self._held(first.source, camera).frames_with(first.episode)
        kept = int(self.length[list(unit.pieces)].sum())
        return size * min(kept, total) // total if total else size

    def _name(
        self, units: Sequence[Unit], old: FileSet, camera: str | None, same: Sequence[bool]
    ) -> tuple[FileSet, NDArray[np.int64]]:
        """Return the files, and which of them each episode is in.

        In place, files that change get new names if names are stored in a table: the old files stay
        complete until the table is replaced.
        """
        file = np.empty(len(self._recipe.pieces), np.int64)
        for place, unit in enumerate(units):
            file[list(unit.pieces)] = place
        places = [unit.place for unit in units]
        stays = self._in_place and None not in places and not self._converts
        if old.numbers.keys() == {"chunk_index", "file_index"}:
            places = [unit.place if one else None for unit, one in zip(units, same, strict=True)]
        files = place_files(
            self._version,
            None if self._converts else old,
            camera=camera,
            files_per_chunk=self._first.files_per_chunk,
            places=places if stays else None,
            numbers=[unit.pieces[0] for unit in units],
        )
        return files, file


def _few(frames: Sequence[int]) -> str:
    shown = ", ".join(map(str, frames[:12]))
    return f"{shown}, …" if len(frames) > 12 else shown
