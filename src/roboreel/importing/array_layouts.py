"""Layouts of array files: episodes, rate and task, by names, flags and times."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.array_recording import MOST_STEPS, ArrayEpisode, ArrayRecording, Rate
from roboreel.importing.array_streams import plain_text
from roboreel.importing.rates import rate_of_times
from roboreel.importing.recording import TASK_NAMES, natural_key
from roboreel.importing.time_units import (
    find_units,
    flat_times,
    have_own_times,
    is_time_name,
    pair_times,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.importing.array_tree import ArrayTree, Leaf
    from roboreel.importing.recording import Recording
    from roboreel.importing.time_units import TimeUnit

ENDS = "episode_ends"
"""The array that lists where episodes end, in the layout of diffusion policy."""
_NUMBERS = ("episode_index", "episode_id", "episode", "trajectory_id", "traj_id")
"""Arrays that number the episode of each row."""
_OVER = ("terminals", "terminal", "terminations", "terminated", "dones", "done", "is_last")
_CUT = ("timeouts", "timeout", "truncations", "truncated")
"""Arrays that are true where an episode ends, as those of D4RL and Gymnasium."""
_RATE_NAMES = ("fps", "frequency", "freq", "hz", "control_freq", "control_frequency", "rate")
_ROWS_AT_ONCE = 1_000_000
_MOST_TIMES = 100_000

_PARTS = re.compile(
    r"cam|image|rgb|depth|arm|robot|sensor|joint|view|gripper|hand|finger", re.IGNORECASE
)
"""Names of things of which one robot has several."""
_EPISODES = re.compile(r"$|(ep|demo|traj|roll|seq|run|trial)", re.IGNORECASE)
NUMBERED = re.compile(r"^(.*?)[_\-. ]?(\d+)$")


def open_plain(tree: ArrayTree, layout: str) -> Recording:
    """Return the recording in a file of no known layout: episodes, rate and task are guessed.

    Raises:
        SourceError: No array has steps.
    """
    if not any(leaf.shape for leaf in tree.leaves.values()):
        raise SourceError(f"There is no array with steps in {str(tree.path)!r}.")
    episodes = []
    for name, arrays in _episode_groups(tree.leaves).items():
        length = _usual_rows(tree.leaves[path] for path in arrays.values())
        parent = _parent(arrays)
        metadata = {
            key: value
            for key, value in tree.attributes(parent).items()
            if key not in TASK_NAMES and (not isinstance(value, str) or len(value) <= 1000)
        }
        task = task_of(tree, parent)
        kept = {name: p for name, p in arrays.items() if not _tells_task(tree.leaves[p])}
        episodes.append(ArrayEpisode(name, length, kept or arrays, task=task, metadata=metadata))
    timed, remarks = open_timed(tree, layout, episodes)
    if timed is not None:
        return timed
    if len(episodes) == 1:
        episodes, said = _cut(tree, episodes[0])
        remarks += said
    recording = ArrayRecording(tree, layout, episodes, rate_of(tree, episodes[0]))
    recording.remarks = tuple(remarks)
    return recording


def open_timed(
    tree: ArrayTree, layout: str, episodes: Sequence[ArrayEpisode]
) -> tuple[ArrayRecording | None, list[str]]:
    """Return the recording of a file whose arrays have times and differ in length; None for others.

    Where all arrays with times have one length, they are steps: value ``i`` of each belongs together,
    whatever their times. The second value says which times then differ by more than half a step.
    """
    timed, differ = [], False
    for episode in episodes:
        arrays = {name: tree.leaves[path] for name, path in episode.arrays.items()}
        pairs = pair_times(arrays)
        differ = differ or have_own_times(arrays, pairs)
        timed.append(replace(episode, times=pairs))
    units = _units(tree, timed)
    if not differ:
        return None, _steps_apart(tree, timed, units)
    known = [
        replace(e, times={n: t for n, t in (e.times or {}).items() if t in units}) for e in timed
    ]
    return ArrayRecording(tree, layout, known, _declared_rate(tree, ""), units=units), []


def _units(tree: ArrayTree, episodes: Sequence[ArrayEpisode]) -> dict[str, TimeUnit]:
    """Return the units of all arrays of times, each by the first episode that has it."""
    first: dict[str, str] = {}
    for episode in episodes:
        for name in (episode.times or {}).values():
            if tree.leaves[episode.arrays[name]].rows > 1:
                first.setdefault(name, episode.arrays[name])
    arrays, declared = {}, {}
    for name, path in first.items():
        rows = min(tree.leaves[path].rows, _MOST_TIMES)
        arrays[name] = flat_times(tree.read(path, 0, rows))
        attributes = tree.attributes(path)
        declared[name] = str(attributes.get("units", attributes.get("unit", "")))
    return find_units(arrays, declared)


def _steps_apart(
    tree: ArrayTree, episodes: Sequence[ArrayEpisode], units: Mapping[str, TimeUnit]
) -> list[str]:
    """Return which arrays of steps have times that differ by more than half a step, in words."""
    said: dict[tuple[str, str], str] = {}
    for episode in episodes:
        seconds = {}
        for name in dict.fromkeys((episode.times or {}).values()):
            leaf = tree.leaves[episode.arrays[name]]
            if name in units and leaf.rows == episode.length <= _MOST_TIMES:
                times = flat_times(tree.read(leaf.path, 0, leaf.rows)).astype(np.float64)
                seconds[name] = times / units[name].ticks
        for pair in combinations(seconds, 2):
            step = min(np.median(np.diff(seconds[name])) for name in pair)
            most = np.abs(seconds[pair[0]] - seconds[pair[1]]).max(initial=0)
            if most > step / 2 > 0 and pair not in said:
                said[pair] = (
                    f"{episode.name}: {pair[0]} and {pair[1]} differ by up to {most:.3g} s, more "
                    "than half a frame. Values of one step are put together all the same."
                )
    return list(said.values())


# Episodes: numbered groups, or rows one after the other.


def _episode_groups(leaves: Mapping[str, Leaf]) -> dict[str, dict[str, str]]:
    """Return the arrays of each episode of a file whose layout is not known.

    Numbered groups with one name (``episode_0``, ``episode_1``) are episodes, at the top or below a
    single group. If their name says that they are episodes, other groups may stand beside them,
    such as ``calibration``. Otherwise the whole file is one.
    """
    tops = {path.split("/", 1)[0] for path in leaves if "/" in path}
    for parent in ["", *sorted(tops)]:
        groups = _named_episodes(children(leaves, parent))
        matched = [NUMBERED.match(name) for name in groups]
        stems = {found.group(1) for found in matched if found}
        inside = {path for arrays in groups.values() for path in arrays.values()}
        alone = all(path in inside for path, leaf in leaves.items() if leaf.shape)
        if groups and all(matched) and len(stems) == 1 and _are_episodes(stems.pop(), alone):
            return {name: groups[name] for name in sorted(groups, key=natural_key)}
    return {"0": {path: path for path in leaves}}


def _named_episodes(groups: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Return the groups that are called episodes, if there are any, otherwise all."""
    found = {name: NUMBERED.match(name) for name in groups}
    named = [n for n, m in found.items() if m and _EPISODES.match(m.group(1))]
    return {name: groups[name] for name in named} or groups


def _are_episodes(stem: str, alone: bool) -> bool:
    """Return whether numbered groups are episodes, by their common name.

    Args:
        stem: The name without the number.
        alone: Whether the file has no array with steps outside of them.
    """
    if _PARTS.search(stem):
        return False
    return alone or _EPISODES.match(stem) is not None


def children(leaves: Mapping[str, Leaf], parent: str) -> dict[str, dict[str, str]]:
    """Return the arrays below each group of a parent, by their path inside that group."""
    prefix = f"{parent}/" if parent else ""
    groups: dict[str, dict[str, str]] = {}
    for path in leaves:
        group, slash, rest = path.removeprefix(prefix).partition("/")
        if path.startswith(prefix) and slash:
            groups.setdefault(group, {})[rest] = path
    return groups


def _usual_rows(leaves: Iterable[Leaf]) -> int:
    """Return how many steps arrays have: those of the actions, or what most of them have."""
    with_rows = [leaf for leaf in leaves if leaf.shape]
    for leaf in with_rows:
        if leaf.path.rsplit("/", 1)[-1] in ("action", "actions"):
            return leaf.rows
    counted = Counter(leaf.rows for leaf in with_rows)
    return max(counted, key=lambda rows: (counted[rows], rows)) if counted else 0


def _cut(tree: ArrayTree, whole: ArrayEpisode) -> tuple[list[ArrayEpisode], list[str]]:
    """Return the episodes that lie one after the other in the arrays of a file, and how they were found."""
    length, leaves = whole.length, tree.leaves
    scalars = {
        n.rsplit("/", 1)[-1]: leaves[p] for n, p in whole.arrays.items() if _is_scalar(leaves[p])
    }
    scalars = {n: leaf for n, leaf in scalars.items() if leaf.rows <= MOST_STEPS}
    rows = {n: leaf for n, leaf in scalars.items() if leaf.rows == length}
    counts = {n: leaf for n, leaf in scalars.items() if leaf.dtype.lstrip("u").startswith("int")}
    numbers = next((n for n in _NUMBERS if n in rows and n in counts), None)
    if ENDS in counts:
        ends = read_ends(tree, counts[ENDS], length)
        said = [f"Episodes end as {ENDS} lists: {len(ends):,} of them."]
        if ends[-1] < length:
            said.append(f"{length - ends[-1]:,} rows after the last are left out.")
    elif numbers is not None:
        ends = np.append(np.flatnonzero(np.diff(_per_row(tree, rows[numbers]))) + 1, length)
        said = [f"Episodes are rows of one {numbers}: {len(ends):,} of them."]
    else:
        flags = {n: _per_row(tree, rows[n]) for n in (*_OVER, *_CUT) if n in rows}
        ends, said = _flagged_ends(
            {n: v == 1 for n, v in flags.items() if np.isin(v, (0, 1)).all()}
        )
    if not len(ends) or ends.tolist() == [length]:
        return [whole], said
    arrays = {name: path for name, path in whole.arrays.items() if leaves[path].rows == length}
    return split_at(replace(whole, arrays=arrays), ends), said


def split_at(whole: ArrayEpisode, ends: NDArray[np.int64]) -> list[ArrayEpisode]:
    """Return the episodes that end before these rows of the same arrays."""
    starts = [0, *ends[:-1].tolist()]
    return [
        replace(whole, name=str(i), length=end - start, start=start, is_part=True)
        for i, (start, end) in enumerate(zip(starts, ends.tolist(), strict=True))
    ]


def read_ends(tree: ArrayTree, leaf: Leaf, length: float = math.inf) -> NDArray[np.int64]:
    """Return the rows at which episodes end, from the array that lists them.

    Raises:
        SourceError: It does not.
    """
    ends = _per_row(tree, leaf).astype(np.int64)
    if not len(ends) or ends[0] < 0 or ends[-1] > length or (np.diff(ends) < 0).any():
        raise SourceError(
            f"{leaf.path!r} does not list the ends of episodes: they do not ascend, or lie outside "
            f"of the rows: {str(tree.path)!r}."
        )
    return ends


def ends_by_flags(over: NDArray[np.bool_], cut: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the row behind the last one of each episode, also of one that the end of the file cuts off.

    Args:
        over: Whether the episode is over, by row. It may stay so, as some simulators run on: the
            last of such rows ends the episode.
        cut: Whether the episode ran out of time, by row: each ends one.

    Examples:
        >>> ends_by_flags(np.array([0, 1, 0, 1, 1, 0], bool), np.zeros(6, bool)).tolist()
        [2, 5, 6]
    """
    last = over & ~np.append(over[1:], False)
    return np.union1d(np.flatnonzero(last | cut) + 1, [len(over)]).astype(np.int64)


def _flagged_ends(flags: Mapping[str, NDArray[np.bool_]]) -> tuple[NDArray[np.int64], list[str]]:
    """Return where episodes end by the arrays that are true there, and what is to be said of it."""
    if not any(len(rows) for rows in flags.values()):
        return np.empty(0, np.int64), []
    nothing = np.zeros_like(next(iter(flags.values())))
    over, cut = (np.any([nothing, *(flags[n] for n in s if n in flags)], 0) for s in (_OVER, _CUT))
    ends, names = ends_by_flags(over, cut), " or ".join(flags)
    if not (over | cut).any():
        return ends, [f"{names} is never true: the file is taken for one episode."]
    said = [f"Episodes end where {names} is true: {len(ends):,} of them."]
    if (over[:-1] & over[1:] & ~cut[:-1]).any():
        said.append("Where that stays true, the last of the rows ends the episode.")
    if not (over | cut)[-1]:
        said.append(f"No row ends the last of them, of {np.diff(ends, prepend=0)[-1]:,} frames.")
    if len(ends) > 1 and not flags.keys() & set(_CUT):
        said.append(
            "No array such as timeouts marks episodes that ran out of time: they may be joined."
        )
    return ends, said if len(ends) > 1 or len(said) > 1 else []


def _per_row(tree: ArrayTree, leaf: Leaf) -> NDArray[Any]:
    starts = range(0, leaf.rows, _ROWS_AT_ONCE)
    blocks = [tree.read(leaf.path, a, min(a + _ROWS_AT_ONCE, leaf.rows)) for a in starts]
    return np.concatenate([np.empty(0, np.bool_), *(block.reshape(-1) for block in blocks)])


# Rate and task.


def rate_of(tree: ArrayTree, episode: ArrayEpisode) -> Rate:
    """Return the rate that an attribute or the timestamps of an episode tell; none if neither does."""
    declared = _declared_rate(tree, _parent(episode.arrays))
    if declared.fps is not None:
        return declared
    for name, path in episode.arrays.items():
        leaf = tree.leaves[path]
        flat = _is_scalar(leaf) and leaf.dtype != "bool"
        fits = leaf.rows >= episode.start + episode.length
        fits = fits and (episode.is_part or leaf.rows == episode.length)
        if is_time_name(name) and flat and fits:
            stop = episode.start + min(episode.length, _MOST_TIMES)
            times = tree.read(path, episode.start, stop).reshape(-1)
            fps = rate_of_times(np.asarray(times), name)
            if fps is not None:
                return Rate(fps, f"the times in {name!r}")
    return Rate()


def _declared_rate(tree: ArrayTree, parent: str) -> Rate:
    """Return the rate that an attribute of the group or of the file gives; none if neither does."""
    for place in dict.fromkeys([parent, ""]):
        for name, value in tree.attributes(place).items():
            number = not isinstance(value, bool | str) and 0 < value < 1e6
            if name.lower() in _RATE_NAMES and number:
                return Rate(float(value), f"its attribute {name!r}")
    return Rate()


def task_of(tree: ArrayTree, parent: str) -> str | None:
    """Return the task in words, from an attribute or a text of a group or of the file."""
    for place in dict.fromkeys([parent, ""]):
        said: dict[str, object] = dict(tree.attributes(place))
        prefix = f"{place}/" if place else ""
        for name in TASK_NAMES:
            leaf = tree.leaves.get(f"{prefix}{name}")
            if leaf is not None and _tells_task(leaf):
                said[name] = plain_text(tree.read(leaf.path, 0, 1).reshape(-1).tolist()[0])
            text = said.get(name)
            if isinstance(text, str) and text.strip():
                return text.strip()
    return None


def _is_scalar(leaf: Leaf) -> bool:
    return leaf.kind == "numbers" and (len(leaf.shape) == 1 or leaf.shape[1:] == (1,))


def _tells_task(leaf: Leaf) -> bool:
    """Whether an array is the task of a whole episode: one text, by its name."""
    is_one = leaf.kind == "text" and leaf.shape in ((), (1,))
    return is_one and leaf.path.rsplit("/", 1)[-1] in TASK_NAMES


def _parent(arrays: Mapping[str, str]) -> str:
    """Return the group of an episode, from one of its arrays."""
    name, path = next(iter(arrays.items()))
    return path.removesuffix(name).rstrip("/")
