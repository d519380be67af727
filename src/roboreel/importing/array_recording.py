"""A recording in a file of named arrays: each stream of an episode is some rows of an array."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.array_streams import Column, classify, to_values
from roboreel.importing.array_tree import MOST_CHUNK_BYTES, Slabs
from roboreel.importing.recording import TASK_NAMES, Recording, SourceEpisode, Stream
from roboreel.importing.time_units import flat_times, to_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.importing.array_tree import ArrayTree, Leaf
    from roboreel.importing.recording import Clock, Values
    from roboreel.importing.time_units import TimeUnit

MOST_STEPS = 100_000_000


@dataclass(frozen=True, slots=True)
class ArrayEpisode:
    """Where an episode lies in a file of arrays."""

    name: str
    length: int
    """How many steps it has; not used where streams have times of their own."""
    arrays: Mapping[str, str]
    """The path of the array of each stream."""
    start: int = 0
    """The row of its first step, in every array."""
    is_part: bool = False
    """Whether the arrays hold other episodes too."""
    task: str | None = None
    metadata: Mapping[str, bool | int | float | str] = field(default_factory=dict, hash=False)
    times: Mapping[str, str] | None = field(default=None, hash=False)
    """The stream that holds the times of another one, by name; None in a recording of steps."""


class Rate(NamedTuple):
    """How many steps there are in a second, and how that is known."""

    fps: float | None = None
    reason: str = ""


class ArrayRecording(Recording):
    """A recording in a file of arrays: of steps, or of streams with times of their own.

    Args:
        tree: The file, which now belongs to the recording.
        layout: What was recognised.
        episodes: Where each lies.
        rate: Steps per second, if that is known.
        used: Arrays beside the episodes that were made use of. Others are listed as streams.
        units: In which unit times are, by their stream, where streams have their own.

    Raises:
        SourceError: There is no episode, or an impossible one.
    """

    def __init__(
        self,
        tree: ArrayTree,
        layout: str,
        episodes: Sequence[ArrayEpisode],
        rate: Rate,
        *,
        used: Sequence[str] = (),
        units: Mapping[str, TimeUnit] | None = None,
    ) -> None:
        timed = units is not None
        self._tree, self._places, self._units = tree, tuple(episodes), units or {}
        self._columns = _describe_columns(tree, episodes)
        for name, unit in self._units.items():
            self._note_unit(name, unit)
        listed = [
            SourceEpisode(e.name, None if timed else e.length, e.task, e.metadata) for e in episodes
        ]
        streams = {name: column.stream for name, column in self._columns.items()}
        self._outside = _outside(tree.leaves, episodes, {*used})
        streams |= self._outside
        fps, reason = rate
        super().__init__(
            tree.path, layout, streams, listed, timed=timed, fps=fps, fps_reason=reason
        )
        self._slabs = Slabs(tree)

    def count(self, episode: int, stream: str) -> int:
        """Return how many steps an episode has, or values of a stream that has times."""
        place = self._places[episode]
        if stream in self._outside:
            return 0
        if not self.timed:
            return super().count(episode, stream)
        self.stream(stream)
        has_times = stream in (place.times or {})
        return self._tree.leaves[place.arrays[stream]].rows if has_times else 0

    def times(self, episode: int, stream: str, clock: Clock = "log") -> NDArray[np.int64]:
        """Return when each value was, by the array of its times."""
        self.stream(stream)
        if not self.timed or clock != "log":
            return super().times(episode, stream, clock)
        place = self._places[episode]
        name = (place.times or {}).get(stream)
        if name is None:
            return np.empty(0, np.int64)
        path = place.arrays[name]
        values = flat_times(self._tree.read(path, 0, self._tree.leaves[path].rows))
        return to_ns(values, self._units[name], f"{path!r} of {str(self.path)!r}")

    def _read(self, episode: int, wanted: Mapping[str, NDArray[np.int64]]) -> dict[str, Values]:
        """Return rows of several arrays."""
        place = self._places[episode]
        where = f"in episode {place.name!r} of {str(self.path)!r}"
        values: dict[str, Values] = {}
        for name, positions in wanted.items():
            rows = self._slabs.read(place.arrays[name], positions + place.start)
            values[name] = to_values(self._columns[name], rows, where)
        return values

    def close(self) -> None:
        """Close the file."""
        self._tree.close()

    def _note_unit(self, name: str, unit: TimeUnit) -> None:
        """Say of an array of times whose they are, and what unit they are taken for."""
        others = sorted({n for e in self._places for n, t in (e.times or {}).items() if t == name})
        if others and name in self._columns:
            shown = ", ".join(others[:4]) + (" and others" if len(others) > 4 else "")
            note = f"The times of {shown}, taken for {unit.name}: {unit.reason}."
            column = self._columns[name]
            self._columns[name] = replace(column, stream=replace(column.stream, note=note))


def _describe_columns(tree: ArrayTree, episodes: Sequence[ArrayEpisode]) -> dict[str, Column]:
    """Return what the arrays of all episodes hold, by stream.

    A stream that some episode lacks, or has in another shape or length, is ``other``.
    """
    if not episodes:
        raise SourceError(f"There is no episode in {str(tree.path)!r}.")
    _check_lengths(tree, episodes)
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(name for episode in episodes for name in episode.arrays):
        problem = _difference(name, tree.leaves, episodes)
        first = next(episode for episode in episodes if name in episode.arrays)
        leaf = tree.leaves[first.arrays[name]]
        if problem:
            columns[name] = Column(Stream(name, "other", source_type=leaf.dtype, note=problem))
            continue
        columns[name] = classify(name, leaf, cache(partial(_sample, tree, leaf, first)))
    return columns


def _outside(
    leaves: Mapping[str, Leaf], episodes: Sequence[ArrayEpisode], used: set[str]
) -> dict[str, Stream]:
    """Return the arrays that belong to no episode, as streams that cannot become features."""
    inside = {path for episode in episodes for path in episode.arrays.values()} | used
    note = "It lies outside of the episodes."
    return {
        f"/{path}": Stream(f"/{path}", "other", source_type=leaf.dtype or leaf.kind, note=note)
        for path, leaf in leaves.items()
        if path not in inside and path.rsplit("/", 1)[-1] not in TASK_NAMES
    }


def _sample(tree: ArrayTree, leaf: Leaf, episode: ArrayEpisode) -> NDArray[Any]:
    """Return a few rows of an array."""
    start, length = episode.start, episode.length if episode.times is None else leaf.rows
    steps = sorted({0, length // 2, max(0, length - 1)}) if length else []
    parts = [tree.read(leaf.path, start + step, start + step + 1) for step in steps]
    return np.concatenate(parts) if parts else tree.read(leaf.path, 0, 0)


def _check_lengths(tree: ArrayTree, episodes: Sequence[ArrayEpisode]) -> None:
    for episode in episodes:
        if not 0 <= episode.length <= MOST_STEPS:
            raise SourceError(
                f"Episode {episode.name!r} claims {episode.length:,} steps: {str(tree.path)!r}."
            )
    for leaf in tree.leaves.values():
        size = leaf.chunk_rows * max(1, int(np.prod(leaf.shape[1:], dtype=float)))
        if size > MOST_CHUNK_BYTES:
            raise SourceError(
                f"A chunk of {leaf.path!r} has {size:,} elements or more, which is not decoded: "
                f"{str(tree.path)!r}."
            )


def _difference(name: str, leaves: Mapping[str, Leaf], episodes: Sequence[ArrayEpisode]) -> str:
    """Return why an array is not the same in all episodes; nothing if it is."""
    expected: Leaf | None = None
    for episode in episodes:
        if name not in episode.arrays:
            return f"Episode {episode.name!r} does not have it."
        leaf = leaves[episode.arrays[name]]
        expected = expected or leaf
        if leaf.kind == "other" and leaf.note:
            return leaf.note
        if not leaf.shape:
            return "It is one value, not one for each step."
        stop = episode.start + episode.length
        if episode.times is not None:
            if name in episode.times.values():
                return "It is the times of other streams."
            if name not in episode.times:
                return f"It has {leaf.rows} values, and no array of so many times belongs to it."
        elif leaf.rows < stop or (leaf.rows != stop and not episode.is_part):
            return (
                f"It has {leaf.rows} values, and episode {episode.name!r} ends at {stop}: without "
                "times of their own, streams have one value for each step."
            )
        padded = leaf.dtype == "uint8" and len(leaf.shape) == 2
        if (leaf.kind, leaf.dtype) != (expected.kind, expected.dtype) or (
            leaf.shape[1:] != expected.shape[1:] and not padded
        ):
            return (
                f"It is {leaf.dtype} {leaf.shape[1:]} in episode {episode.name!r}, and "
                f"{expected.dtype} {expected.shape[1:]} before."
            )
    return ""
