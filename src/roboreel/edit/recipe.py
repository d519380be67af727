"""What a new dataset is made of: episodes, or parts of them, in order. Pure: no file is opened here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import EditError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from roboreel.video.encoding import Encoding

    Value = bool | int | float | str

Names = Mapping[str, str | None]
"""New names of features by old name; None for one that goes. A feature that is not named stays."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One episode of the new dataset: the frames ``[start, stop)`` of an old one."""

    source: int
    """Which dataset it comes from."""
    episode: int
    """Position of the episode in that dataset's table."""
    start: int
    stop: int
    frames: int
    """Frames of the whole episode."""
    task: str | None = None
    """The task of all frames; None if they keep theirs."""
    retold: tuple[tuple[str, str], ...] = ()
    """Tasks in other words: old and new, in the order in which they are replaced."""
    columns: tuple[tuple[str, Value | None], ...] = ()
    """What the metadata says of the episode, where that changes."""

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= self.frames:
            raise EditError(
                f"Frames {self.start} to {self.stop} cannot be an episode: there are {self.frames}, "
                "and one at least must stay."
            )

    @property
    def is_whole(self) -> bool:
        """Whether it has all frames of the old episode."""
        return self.stop - self.start == self.frames

    def new_task(self, text: str) -> str:
        """Return the text of a task in the new dataset."""
        if self.task is not None:
            return self.task
        for old, new in self.retold:
            text = new if text == old else text
        return text


@dataclass(frozen=True, slots=True)
class CameraCoding:
    """How the images of a camera are encoded again."""

    encoding: Encoding | None = None
    """None for the codec that the camera has."""
    size: tuple[int, int] | None = None
    """Height and width; None if they stay."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The new dataset, as pieces of old ones and a map of their features."""

    pieces: tuple[Piece, ...]
    """In the order of their new numbers: by source and episode, then by frame."""
    names: tuple[Names, ...] = ({},)
    """New names of features, for each source."""
    version: str | None = None
    """Version of the new dataset; None for that of the first source."""
    fps: float | None = None
    """Frames per second, if frames are chosen by time; None if all stay."""
    codings: Mapping[str, CameraCoding] = field(default_factory=dict)
    """Cameras that are encoded again, by their new names."""
    padded: Mapping[str, float] = field(default_factory=dict)
    """Numbers that a source lacks, by their new names, and the value that its rows get."""
    reencode: bool = False
    """Whether a clip may be encoded again where its packets cannot be cut."""
    scrub: bool = False
    """Whether nothing may remain of the images that leave."""
    anew: bool = False
    """Whether rows are numbered and statistics computed whatever the sources say of them."""

    @property
    def columns(self) -> dict[str, Value | None]:
        """A value of each column of the metadata that changes; None if it only loses values."""
        given = [pair for piece in self.pieces for pair in piece.columns]
        return dict(given) | {name: value for name, value in given if value is not None}

    def without(self, episodes: Collection[int]) -> Recipe:
        """Return it without some episodes of the first source."""
        gone = set(episodes)
        kept = tuple(p for p in self.pieces if p.source or p.episode not in gone)
        if not kept:
            raise EditError("No episode would stay: name fewer to delete, or more to keep.")
        return replace(self, pieces=kept)

    def trimmed(self, spans: Mapping[int, tuple[int, int]]) -> Recipe:
        """Return it with the frames ``[start, stop)`` of some episodes, counted in the old ones."""

        def trim(piece: Piece) -> list[Piece]:
            start, stop = spans[piece.episode]
            first, last = max(piece.start, start), min(piece.stop, stop)
            return [replace(piece, start=first, stop=last)] if first < last else []

        return self._exchanged(spans, trim)

    def cut(self, episode: int, frame: int) -> Recipe:
        """Return it with an episode in two, of which the second begins with a frame."""

        def cut(piece: Piece) -> list[Piece]:
            if not piece.start < frame < piece.stop:
                return [piece]
            return [replace(piece, stop=frame), replace(piece, start=frame)]

        made = self._exchanged([episode], cut)
        if len(made.pieces) == len(self.pieces):
            raise EditError(
                f"Frame {frame} cannot begin an episode: it does already, or this edit trims it off."
            )
        return made

    def with_task(self, episodes: Collection[int], task: str) -> Recipe:
        """Return the recipe with one task for all frames of some episodes."""
        return self._changed(episodes, lambda piece: replace(piece, task=task, retold=()))

    def with_task_renamed(self, episodes: Collection[int], old: str, new: str) -> Recipe:
        """Return the recipe with a task in other words."""

        def retell(piece: Piece) -> Piece:
            if piece.task is not None:
                return replace(piece, task=new) if piece.task == old else piece
            return replace(piece, retold=(*piece.retold, (old, new)))

        return self._changed(episodes, retell)

    def with_columns(
        self, episodes: Collection[int], columns: Mapping[str, Value | None]
    ) -> Recipe:
        """Return it with other values of columns of the metadata; None for no value."""

        def change(piece: Piece) -> Piece:
            return replace(piece, columns=tuple({**dict(piece.columns), **columns}.items()))

        return self._changed(episodes, change)

    def renamed(self, names: Names, source: int = 0) -> Recipe:
        """Return it with other names of features of a source, or without some."""
        earlier = dict(self.names[source])
        old = {new: name for name, new in earlier.items() if new is not None}
        new_names = {**earlier, **{old.get(name, name): new for name, new in names.items()}}
        kept = {name: new for name, new in new_names.items() if name != new}
        every = list(self.names)
        every[source] = kept
        codings = {_follow(names, n): c for n, c in self.codings.items()}
        return replace(
            self,
            names=tuple(every),
            codings={name: coding for name, coding in codings.items() if name is not None},
        )

    def _changed(self, episodes: Collection[int], change: Callable[[Piece], Piece]) -> Recipe:
        pieces: list[Piece] = []
        for mine, own in self._runs(episodes):
            pieces += [change(piece) for piece in own] if mine else own
        return replace(self, pieces=tuple(pieces))

    def _exchanged(
        self, episodes: Collection[int], exchange: Callable[[Piece], Sequence[Piece]]
    ) -> Recipe:
        """Return it with other pieces of some episodes; of each that is there, one must stay."""
        pieces: list[Piece] = []
        found = False
        for mine, own in self._runs(episodes):
            new = [one for piece in own for one in exchange(piece)] if mine else own
            if mine and bool(own) != bool(new):
                raise EditError("No frame of the episode would stay: delete the episode instead.")
            found |= mine and bool(own)
            pieces += new
        if not found:
            raise EditError("The episode is not there any more: this edit deletes it.")
        return replace(self, pieces=tuple(pieces))

    def _runs(self, episodes: Collection[int]) -> Iterator[tuple[bool, Sequence[Piece]]]:
        """Yield the pieces of each of some episodes of the first source, and those between.

        They are found by halving: a page in a browser may ask for thousands of changes.
        """
        done = 0
        for episode in sorted(set(episodes)):
            first = bisect_left(self.pieces, (0, episode), done, key=_place)
            stop = bisect_right(self.pieces, (0, episode), first, key=_place)
            yield False, self.pieces[done:first]
            yield True, self.pieces[first:stop]
            done = stop
        yield False, self.pieces[done:]


def _place(piece: Piece) -> tuple[int, int]:
    return piece.source, piece.episode


def whole_episodes(
    lengths: Sequence[int] | NDArray[np.int64], source: int = 0
) -> tuple[Piece, ...]:
    """Return all episodes of a dataset as they are. Episodes without frames are left out."""
    counted = enumerate(int(length) for length in lengths)
    return tuple(Piece(source, i, 0, length, length) for i, length in counted if length)


def frames_at_rate(piece: Piece, old_fps: float, new_fps: float | None) -> NDArray[np.int64]:
    """Return which frames of the old episode a piece has, ``(N,)``, ascending.

    At another rate, frame ``i`` is the one that is nearest to the time ``i / new_fps``.

    Examples:
        >>> frames_at_rate(Piece(0, 0, 10, 20, 30), 30, 15).tolist()
        [10, 12, 14, 16, 18]
    """
    if new_fps is None or new_fps == old_fps:
        return np.arange(piece.start, piece.stop)
    count = max(1, int(np.ceil((piece.stop - piece.start) * new_fps / old_fps - 1e-9)))
    nearest = np.floor(np.arange(count) * (old_fps / new_fps) + 0.5 - 1e-9).astype(np.int64)
    frames: NDArray[np.int64] = np.minimum(piece.start + nearest, piece.stop - 1)
    return frames


def _follow(names: Names, name: str) -> str | None:
    return names.get(name, name)
