"""Array files of no known layout: episodes, rate and task are guessed from names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.array_recording import (
    MOST_STEPS,
    ArrayEpisode,
    ArrayRecording,
    Rate,
    describe_columns,
)
from roboreel.importing.array_streams import plain_text
from roboreel.importing.boundaries import ends_by_flags
from roboreel.importing.rates import rate_of_times
from roboreel.importing.time_units import is_time_name
from roboreel.importing.timed_tree import open_timed, said_rate, steps_apart
from roboreel.importing.tree_layouts import ENDS, TASK_NAMES, episode_groups, usual_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.importing.array_tree import ArrayTree, Leaf
    from roboreel.importing.recording import Recording

_NUMBERS = ("episode_index", "episode_id", "episode", "trajectory_id", "traj_id")
"""Arrays that number the episode of each row."""
_OVER = ("terminals", "terminal", "terminations", "terminated", "dones", "done", "is_last")
_CUT = ("timeouts", "timeout", "truncations", "truncated")
"""Arrays that are true where an episode ends, as those of D4RL and Gymnasium."""
_ROWS_AT_ONCE = 1_000_000


def open_plain(tree: ArrayTree, leaves: Mapping[str, Leaf], layout: str) -> Recording:
    """Return the recording in a file of no known layout.

    Raises:
        SourceError: No array has steps.
    """
    if not any(leaf.shape for leaf in leaves.values()):
        raise SourceError(f"There is no array with steps in {str(tree.path)!r}.")
    episodes = []
    for name, arrays in episode_groups(leaves).items():
        length = usual_rows(leaves[path] for path in arrays.values())
        parent = _parent(arrays)
        metadata = {
            key: value
            for key, value in tree.attributes(parent).items()
            if key not in TASK_NAMES and (not isinstance(value, str) or len(value) <= 1000)
        }
        task = task_of(tree, leaves, parent)
        kept = {name: p for name, p in arrays.items() if not _tells_task(leaves[p])}
        episodes.append(ArrayEpisode(name, length, kept or arrays, task=task, metadata=metadata))
    timed = open_timed(tree, leaves, layout, episodes)
    if timed is not None:
        return timed
    remarks = steps_apart(tree, leaves, episodes)
    if len(episodes) == 1:
        episodes, said = _cut(tree, leaves, episodes[0])
        remarks += said
    columns = describe_columns(tree, leaves, episodes)
    rate = rate_of(tree, leaves, episodes[0])
    recording = ArrayRecording(tree, leaves, layout, episodes, columns, rate)
    recording.remarks = tuple(remarks)
    return recording


def _cut(
    tree: ArrayTree, leaves: Mapping[str, Leaf], whole: ArrayEpisode
) -> tuple[list[ArrayEpisode], list[str]]:
    """Return the episodes that lie one after the other in the arrays of a file, and how they were found."""
    length = whole.length
    scalars = {
        n.rsplit("/", 1)[-1]: leaves[p] for n, p in whole.arrays.items() if _is_scalar(leaves[p])
    }
    scalars = {n: leaf for n, leaf in scalars.items() if leaf.rows <= MOST_STEPS}
    rows = {n: leaf for n, leaf in scalars.items() if leaf.rows == length}
    counts = {n: leaf for n, leaf in scalars.items() if leaf.dtype.lstrip("u").startswith("int")}
    numbers = next((n for n in _NUMBERS if n in rows and n in counts), None)
    if ENDS in counts:
        ends = _per_row(tree, counts[ENDS]).astype(np.int64)
        if not len(ends) or ends[0] < 0 or ends[-1] > length or (np.diff(ends) < 0).any():
            raise SourceError(f"{ENDS!r} does not list the ends of episodes: {str(tree.path)!r}.")
        said = [f"Episodes end as {ENDS} lists: {len(ends):,} of them."]
        if ends[-1] < length:
            said.append(f"{length - ends[-1]:,} rows after the last are left out.")
    elif numbers is not None:
        ends = np.append(np.flatnonzero(np.diff(_per_row(tree, rows[numbers]))) + 1, length)
        said = [f"Episodes are rows of one {numbers}: {len(ends):,} of them."]
    else:
        flags = {n: _per_row(tree, rows[n]) for n in (*_OVER, *_CUT) if n in rows}
        ends, said = _ends_by_flags(
            {n: v == 1 for n, v in flags.items() if np.isin(v, (0, 1)).all()}
        )
    if not len(ends) or ends.tolist() == [length]:
        return [whole], said
    arrays = {name: path for name, path in whole.arrays.items() if leaves[path].rows == length}
    starts = [0, *ends[:-1].tolist()]
    parts = [
        replace(whole, name=str(i), length=end - start, start=start, arrays=arrays, is_part=True)
        for i, (start, end) in enumerate(zip(starts, ends.tolist(), strict=True))
    ]
    return parts, said


def _ends_by_flags(flags: Mapping[str, NDArray[np.bool_]]) -> tuple[NDArray[np.int64], list[str]]:
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


def rate_of(tree: ArrayTree, leaves: Mapping[str, Leaf], episode: ArrayEpisode) -> Rate:
    """Return the rate that an attribute or the timestamps of an episode tell; none if neither does."""
    said = said_rate(tree, _parent(episode.arrays))
    if said.fps is not None:
        return said
    for name, path in episode.arrays.items():
        leaf = leaves[path]
        flat = _is_scalar(leaf) and leaf.dtype != "bool"
        fits = leaf.rows >= episode.start + episode.length
        fits = fits and (episode.is_part or leaf.rows == episode.length)
        if is_time_name(name) and flat and fits:
            stop = episode.start + min(episode.length, 100_000)
            times = tree.read(path, episode.start, stop).reshape(-1)
            fps = rate_of_times(np.asarray(times), name)
            if fps is not None:
                return Rate(fps, f"the times in {name!r}")
    return Rate()


def task_of(tree: ArrayTree, leaves: Mapping[str, Leaf], parent: str) -> str | None:
    """Return the task in words, from an attribute or a text of a group or of the file."""
    for place in dict.fromkeys([parent, ""]):
        said: dict[str, object] = dict(tree.attributes(place))
        prefix = f"{place}/" if place else ""
        for name in TASK_NAMES:
            leaf = leaves.get(f"{prefix}{name}")
            if leaf is not None and _tells_task(leaf):
                said[name] = _one_text(tree, leaf)
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


def _one_text(tree: ArrayTree, leaf: Leaf) -> object:
    if not leaf.shape:
        return tree.read_scalar(leaf.path)
    return plain_text(tree.read(leaf.path, 0, 1).tolist()[0])


def _parent(arrays: Mapping[str, str]) -> str:
    """Return the group of an episode, from one of its arrays."""
    name, path = next(iter(arrays.items()))
    return path.removesuffix(name).rstrip("/")
