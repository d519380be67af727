"""Array files whose streams have times of their own, at rates of their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from roboreel.importing.array_recording import ArrayRecording, Rate, describe_columns
from roboreel.importing.time_units import find_units, flat_times, have_own_times, pair_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roboreel.importing.array_recording import ArrayEpisode
    from roboreel.importing.array_streams import Column
    from roboreel.importing.array_tree import ArrayTree, Leaf
    from roboreel.importing.time_units import TimeUnit

_RATE_NAMES = ("fps", "frequency", "freq", "hz", "control_freq", "control_frequency", "rate")
_MOST_LOOKED_AT = 100_000


def open_timed(
    tree: ArrayTree, leaves: Mapping[str, Leaf], layout: str, episodes: Sequence[ArrayEpisode]
) -> ArrayRecording | None:
    """Return the recording of a file whose arrays differ in length and have times; None for others.

    Where all arrays with times have one length, they are steps: value ``i`` of each belongs together,
    whatever their times.
    """
    timed, differ = [], False
    for episode in episodes:
        arrays = {name: leaves[path] for name, path in episode.arrays.items()}
        pairs = pair_times(arrays)
        differ = differ or have_own_times(arrays, pairs)
        timed.append(replace(episode, times=pairs))
    if not differ:
        return None
    units = _units(tree, leaves, timed)
    known = [
        replace(e, times={n: t for n, t in (e.times or {}).items() if t in units}) for e in timed
    ]
    columns = describe_columns(tree, leaves, known)
    for name, unit in units.items():
        others = sorted({n for e in known for n, t in (e.times or {}).items() if t == name})
        if others and name in columns:
            columns[name] = _said(columns[name], others, unit)
    rate = said_rate(tree, "")
    return ArrayRecording(tree, leaves, layout, known, columns, rate, units=units)


def steps_apart(
    tree: ArrayTree, leaves: Mapping[str, Leaf], episodes: Sequence[ArrayEpisode]
) -> list[str]:
    """Return which arrays of steps have times that differ by more than half a step, in words."""
    pairs = [pair_times({n: leaves[p] for n, p in e.arrays.items()}) for e in episodes]
    timed = [replace(e, times=of) for e, of in zip(episodes, pairs, strict=True)]
    units = _units(tree, leaves, timed)
    said: dict[tuple[str, str], str] = {}
    for episode in timed:
        seconds = {}
        for name in dict.fromkeys((episode.times or {}).values()):
            leaf = leaves[episode.arrays[name]]
            if name in units and leaf.rows == episode.length <= _MOST_LOOKED_AT:
                times = flat_times(tree.read(leaf.path, 0, leaf.rows)).astype(np.float64)
                seconds[name] = times / units[name].ticks
        for one, other in combinations(seconds, 2):
            step = min(np.median(np.diff(seconds[name])) for name in (one, other))
            most = np.abs(seconds[one] - seconds[other]).max(initial=0)
            if most > step / 2 > 0 and (one, other) not in said:
                said[one, other] = (
                    f"{episode.name}: {one} and {other} differ by up to {most:.3g} s, more than half "
                    "a frame. Values of one step are put together all the same."
                )
    return list(said.values())


def said_rate(tree: ArrayTree, parent: str) -> Rate:
    """Return the rate that an attribute of the group or of the file gives; None if neither does."""
    for place in dict.fromkeys([parent, ""]):
        for name, value in tree.attributes(place).items():
            number = not isinstance(value, bool | str) and 0 < value < 1e6
            if name.lower() in _RATE_NAMES and number:
                return Rate(float(value), f"its attribute {name!r}")
    return Rate()


def _units(
    tree: ArrayTree, leaves: Mapping[str, Leaf], episodes: Sequence[ArrayEpisode]
) -> dict[str, TimeUnit]:
    """Return the units of all arrays of times, each by the first episode that has it."""
    first: dict[str, str] = {}
    for episode in episodes:
        for name in (episode.times or {}).values():
            if leaves[episode.arrays[name]].rows > 1:
                first.setdefault(name, episode.arrays[name])
    arrays, said = {}, {}
    for name, path in first.items():
        rows = min(leaves[path].rows, _MOST_LOOKED_AT)
        arrays[name] = flat_times(tree.read(path, 0, rows))
        attributes = tree.attributes(path)
        said[name] = str(attributes.get("units", attributes.get("unit", "")))
    return find_units(arrays, said)


def _said(column: Column, others: Sequence[str], unit: TimeUnit) -> Column:
    shown = ", ".join(others[:4]) + (" and others" if len(others) > 4 else "")
    note = f"The times of {shown}, taken for {unit.name}: {unit.reason}."
    return replace(column, stream=replace(column.stream, note=note))
