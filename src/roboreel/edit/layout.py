"""Which files the new dataset has, and how each is made the cheapest way. Pure: no file is opened here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from roboreel.edit.recipe import frames_at_rate
from roboreel.errors import EditError
from roboreel.format.edits import FileEdit
from roboreel.format.limits import file_limits
from roboreel.format.places import place_files
from roboreel.format.templates import template_fields

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.edit.recipe import Piece, Recipe
    from roboreel.edit.sources import Source
    from roboreel.edit.tasks import TaskPlan
    from roboreel.format.edits import How
    from roboreel.schema import FileSet, Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget(FileEdit):
    """A data or video file of the new dataset."""

    pieces: tuple[int, ...]
    """Numbers of its episodes, in the order of their rows."""
    sources: tuple[tuple[int, str], ...]
    """What it is made from: number of the source, and path below its folder."""
    camera: str | None = None
    """New name of the camera; None for data."""


@dataclass(frozen=True, slots=True, eq=False)
class NewFiles:
    """The new files of one kind: data, or the videos of a camera."""

    files: FileSet
    file: NDArray[np.int64]
    """The file of each new episode."""
    targets: tuple[FileTarget, ...]


@dataclass(frozen=True, eq=False)
class NewLayout:
    """The files of the new dataset, and where its episodes lie."""

    version: str
    fps: float
    start: NDArray[np.int64]
    """First row of each new episode."""
    length: NDArray[np.int64]
    kinds: Mapping[str | None, NewFiles]
    """By the new name of a camera; data under None."""

    @cached_property
    def data(self) -> tuple[FileTarget, ...]:
        """The data files."""
        return self.kinds[None].targets

    @cached_property
    def videos(self) -> tuple[FileTarget, ...]:
        """The video files of all cameras."""
        return tuple(one for camera in self.cameras for one in self.kinds[camera].targets)

    @property
    def cameras(self) -> list[str]:
        """The cameras that are stored as video."""
        return [camera for camera in self.kinds if camera is not None]


@dataclass(frozen=True, slots=True)
class Unit:
    """Episodes that go into one new file, and the old files that they lie in."""

    pieces: tuple[int, ...]
    sources: tuple[tuple[int, str], ...]
    place: int | None = None
    """Which file of the first source it is, if it is one of them alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """The files of one kind of an old dataset, and what each holds."""

    files: FileSet
    file: NDArray[np.int64]
    """The file of each episode; below 0 if it has none."""
    episodes: NDArray[np.int64]
    """Episodes in each file that have frames, ``(F,)``."""
    frames: NDArray[np.int64]

    @classmethod
    def of(cls, manifest: Manifest, camera: str | None) -> Stored:
        """Return the videos of a camera; the data files for None."""
        table = manifest.episodes
        file = table.data_file if camera is None else table.clips[camera].file
        files = manifest.data_files if camera is None else manifest.video_files[camera]
        known = file >= 0
        count = int(file.max(initial=-1)) + 1
        filled = np.bincount(file[known & (table.length > 0)], minlength=count)
        frames = np.zeros(count, np.int64)
        np.add.at(frames, file[known], table.length[known])
        return cls(files, file, filled.astype(np.int64), frames)

    def path_of(self, episode: int) -> str:
        """Return the path of the file of an episode."""
        return self.files[int(self.file[episode])]

    def episodes_with(self, episode: int) -> int:
        """Return how many episodes with frames share the file of an episode."""
        file = int(self.file[episode])
        return int(self.episodes[file]) if file >= 0 else 0

    def frames_with(self, episode: int) -> int:
        """Return how many frames are in the file of an episode."""
        file = int(self.file[episode])
        return int(self.frames[file]) if file >= 0 else 0


def is_per_episode(files: FileSet) -> bool:
    """Whether each episode has a file of its own, named by its number."""
    return bool({"episode_index", "episode_chunk"} & template_fields(files.template))


def new_names(manifest: Manifest, names: Mapping[str, str | None]) -> dict[str, str]:
    """Return the features of a source that stay: old name by new name, in the order of the source."""
    named = ((names.get(name, name), name) for name in manifest.features)
    return {new: old for new, old in named if new is not None}


def lay_out(
    recipe: Recipe,
    sources: Sequence[Source],
    tasks: TaskPlan,
    *,
    in_place: bool,
    link: bool = False,
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
    first = sources[0].manifest
    names = new_names(first, recipe.names[0])
    cameras = [
        name
        for name, old in names.items()
        if first.features[old].is_video and old not in first.absent_cameras
    ]
    fps = [source.manifest.fps for source in sources]
    length = np.array(
        [len(frames_at_rate(p, fps[p.source], recipe.fps)) for p in recipe.pieces], np.int64
    )
    start = _starts(recipe, sources, length)
    planned = [
        (kind, _Planner(recipe, sources, tasks, (start, length), kind, in_place, link))
        for kind in (None, *cameras)
    ]
    return NewLayout(
        recipe.version or first.version,
        recipe.fps or first.fps,
        start,
        length,
        {kind: planner.plan() for kind, planner in planned},
    )


def _starts(
    recipe: Recipe, sources: Sequence[Source], length: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the first row of each new episode; rows stay in the order that they have."""
    old = [source.manifest.episodes.start for source in sources]
    keys = [(p.start, int(old[p.source][p.episode]), p.source) for p in recipe.pieces]
    order = np.lexsort(np.array(keys, np.int64).T) if keys else np.empty(0, np.int64)
    start = np.empty(len(keys), np.int64)
    start[order] = np.cumsum(length[order]) - length[order]
    return start


class _Planner:
    """Plans the files of one kind: data, or the videos of a camera."""

    def __init__(
        self,
        recipe: Recipe,
        sources: Sequence[Source],
        tasks: TaskPlan,
        rows: tuple[NDArray[np.int64], NDArray[np.int64]],
        camera: str | None,
        in_place: bool,
        link: bool,
    ) -> None:
        self._recipe, self._sources, self._tasks = recipe, sources, tasks
        self._start, self._length = rows
        self._camera, self._in_place, self._link = camera, in_place, link
        self._first = sources[0].manifest
        self._version = recipe.version or self._first.version
        self._converts = self._version[:2] != self._first.version[:2]
        pairs = zip(sources, recipe.names, strict=True)
        self._old = [
            None if camera is None else new_names(source.manifest, names)[camera]
            for source, names in pairs
        ]
        """The name of the camera in each source."""
        self._stored = [s.stored(old) for s, old in zip(sources, self._old, strict=True)]
        alone = is_per_episode(self._stored[0].files)
        self._alone = not self._version.startswith("v3") if self._converts else alone
        """Whether each new episode has a file of its own."""
        self._encodes = camera is not None and (recipe.fps is not None or camera in recipe.codings)

    def plan(self) -> NewFiles:
        """Return the files."""
        units = list(self._units())
        if self._camera is None:
            same = [self._is_same_data(unit) for unit in units]
            # LeRobot reads rows in the order of the names: after a file with a new name, all have
            # one.
            named = list(accumulate(same, min))
        else:
            named = same = [self._is_same_video(unit) for unit in units]
        files, file = self._name(units, named)
        targets = []
        for place, unit in enumerate(units):
            target = FileTarget(
                files[place],
                pieces=unit.pieces,
                sources=unit.sources,
                size_bytes=self._share(unit),
                camera=self._camera,
            )
            how = self._how_same(target) if same[place] else self._how_new(unit)
            targets.append(replace(target, how=how))
        return NewFiles(files, file, tuple(targets))

    def _how_same(self, target: FileTarget) -> How:
        """Return how a file is made that has the bytes of an old one."""
        if self._in_place:
            return "kept" if target.sources[0] == (0, target.file) else "linked"
        return "linked" if self._link else "copied"

    def _how_new(self, unit: Unit) -> How:
        if self._camera is None:
            return "rewritten"
        if self._encodes:
            return "re-encoded"
        # A clip may begin between keyframes: in v2.x an edit list hides what is before it.
        if not self._recipe.scrub and (not self._alone or self._key(unit) is not None):
            return "remuxed"
        exact = [self._is_exact(self._recipe.pieces[number]) for number in unit.pieces]
        return "remuxed" if all(exact) else "re-encoded"

    def _is_same_data(self, unit: Unit) -> bool:
        """Whether a file has all rows of an old one, and none of them changes."""
        recipe = self._recipe
        if recipe.anew or self._converts or recipe.fps is not None:
            return False
        if len(unit.sources) != 1 or unit.sources[0][0]:
            return False
        stored = {n for n, f in self._first.features.items() if not f.is_video}
        if any(name in stored or name not in self._first.features for name in recipe.names[0]):
            return False
        return self._has_all(unit) and all(self._keeps_rows(number) for number in unit.pieces)

    def _keeps_rows(self, number: int) -> bool:
        piece, episodes = self._recipe.pieces[number], self._first.episodes
        return (
            piece.is_whole
            and episodes.number[piece.episode] == number
            and episodes.start[piece.episode] == self._start[number]
            and not self._tasks.changes(piece, episodes.tasks_of(piece.episode))
        )

    def _is_same_video(self, unit: Unit) -> bool:
        """Whether a file can have the bytes of an old one."""
        if self._encodes or len(unit.sources) != 1:
            return False
        if not self._alone and unit.place is not None and not self._recipe.scrub:
            return True
        return self._has_all(unit) and not self._shows_more(self._recipe.pieces[unit.pieces[0]])

    def _has_all(self, unit: Unit) -> bool:
        """Whether a unit has every frame of the file that it comes from, in one source."""
        pieces = [self._recipe.pieces[number] for number in unit.pieces]
        there = self._stored[pieces[0].source].episodes_with(pieces[0].episode)
        whole = all(piece.is_whole for piece in pieces)
        return whole and len(pieces) == len({piece.episode for piece in pieces}) == there

    def _shows_more(self, piece: Piece) -> bool:
        """Whether an old file has images that would come along and must not."""
        if is_per_episode(self._stored[piece.source].files) and not self._recipe.scrub:
            return False
        return self._sources[piece.source].has_unused(str(self._old[piece.source]), piece.episode)

    def _is_exact(self, piece: Piece) -> bool:
        """Whether the packets of a piece can be cut out; raise if they cannot and must be."""
        source, old = self._sources[piece.source], str(self._old[piece.source])
        cut = source.cut(old, piece.episode, piece.start, piece.stop, joined=not self._alone)
        if cut.is_exact or (self._recipe.reencode and self._alone):
            return cut.is_exact
        number = int(source.manifest.episodes.number[piece.episode])
        where = f"at the frames {_few(cut.starts)}" if cut.starts else "nowhere"
        raise EditError(
            f"Frames {piece.start} to {piece.stop} of episode {number} of {old!r} cannot become a file "
            f"of their own without encoding them again: a lossless cut can start {where}, and must "
            "end where no later image is needed. Choose such a frame"
            + (", or allow it with --reencode (reencode=True)." if self._alone else ".")
        )

    def _units(self) -> Iterator[Unit]:
        """Yield the new files, in the order of their rows."""
        pieces = self._recipe.pieces
        groups: dict[tuple[int, int], list[int]] = {}
        for number in np.argsort(self._start, kind="stable").tolist():
            piece = pieces[number]
            file = int(self._stored[piece.source].file[piece.episode])
            groups.setdefault((piece.source, number if self._alone else file), []).append(number)
        units = []
        for (source, file), numbers in groups.items():
            path = self._stored[source].path_of(pieces[numbers[0]].episode)
            place = None if self._alone else file
            units.append(Unit(tuple(numbers), ((source, path),), place))
        return iter(units) if self._alone else self._joined(units)

    def _joined(self, units: Sequence[Unit]) -> Iterator[Unit]:
        """Yield units; those of sources with a file per episode are joined up to a size."""
        limits = file_limits(self._first)
        limit = limits.data_bytes if self._camera is None else limits.video_bytes
        group: list[Unit] = []
        size, key = 0, None
        for unit in units:
            alone = is_per_episode(self._stored[unit.sources[0][0]].files)
            its_size, its_key = (self._share(unit), self._key(unit)) if alone else (0, None)
            if its_key is None or its_key != key or size + its_size > limit:
                yield from _merged(group)
                group, size = [], 0
            if alone:
                group.append(unit)
            else:
                yield unit
            size, key = size + its_size, its_key
        yield from _merged(group)

    def _key(self, unit: Unit) -> Hashable:
        """Return what is equal for units that can share a file; None if it can share none."""
        piece = self._recipe.pieces[unit.pieces[0]]
        old = self._old[piece.source]
        if old is None or self._encodes:
            return True
        return self._sources[piece.source].coding(old, piece.episode)

    def _share(self, unit: Unit) -> int:
        """Return how large a new file will be, about: as many bytes per frame as the old ones."""
        size = sum(self._sources[source].size_bytes(path) for source, path in unit.sources)
        if self._camera is not None and unit.place is not None and not self._recipe.scrub:
            return size  # what no longer belongs to an episode stays in the file
        if len(unit.sources) > 1:
            return size
        first = self._recipe.pieces[unit.pieces[0]]
        total = self._stored[first.source].frames_with(first.episode)
        kept = int(self._length[list(unit.pieces)].sum())
        return size * min(kept, total) // total if total else size

    def _name(
        self, units: Sequence[Unit], same: Sequence[bool]
    ) -> tuple[FileSet, NDArray[np.int64]]:
        """Return the files, and which of them each episode is in.

        In place, files that change get new names if names are stored in a table: the old files stay
        complete until the table is replaced.
        """
        old = self._stored[0].files
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
            camera=self._camera,
            files_per_chunk=self._first.files_per_chunk,
            places=places if stays else None,
            numbers=[unit.pieces[0] for unit in units],
        )
        return files, file


def _merged(units: Sequence[Unit]) -> Iterator[Unit]:
    """Yield one unit of all the episodes of some, if there are any."""
    if len(units) == 1:
        yield units[0]
    elif units:
        pieces = tuple(number for unit in units for number in unit.pieces)
        yield Unit(pieces, tuple(path for unit in units for path in unit.sources))


def _few(frames: Sequence[int]) -> str:
    shown = ", ".join(map(str, frames[:12]))
    return f"{shown}, …" if len(frames) > 12 else shown
