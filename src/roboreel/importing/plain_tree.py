"""Array files of no known layout: episodes, rate and task are guessed from names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.array_recording import (
    ArrayEpisode,
    ArrayRecording,
    Rate,
    describe_columns,
)
from roboreel.importing.array_times import is_time_name
from roboreel.importing.rates import rate_of_times
from roboreel.importing.timed_tree import open_timed, said_rate
from roboreel.importing.tree_layouts import TASK_NAMES, episode_groups, usual_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.importing.array_tree import ArrayTree, Leaf
    from roboreel.importing.recording import Recording

__all__ = ["open_plain", "rate_of", "task_of"]


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
    columns = describe_columns(tree, leaves, episodes)
    rate = rate_of(tree, leaves, episodes[0])
    return ArrayRecording(tree, leaves, layout, episodes, columns, rate)


def rate_of(tree: ArrayTree, leaves: Mapping[str, Leaf], episode: ArrayEpisode) -> Rate:
    """Return the rate that an attribute or the timestamps of an episode tell; none if neither does."""
    said = said_rate(tree, _parent(episode.arrays))
    if said.fps is not None:
        return said
    for name, path in episode.arrays.items():
        leaf = leaves[path]
        flat = (
            leaf.kind == "numbers"
            and leaf.dtype != "bool"
            and (len(leaf.shape) == 1 or leaf.shape[1:] == (1,))
        )
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
    """Return the task in words that an attribute or a text of a group tells, or of the file."""
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


def _tells_task(leaf: Leaf) -> bool:
    """Whether an array is the task of a whole episode: one text, by its name."""
    is_one = leaf.kind == "text" and leaf.shape in ((), (1,))
    return is_one and leaf.path.rsplit("/", 1)[-1] in TASK_NAMES


def _one_text(tree: ArrayTree, leaf: Leaf) -> object:
    if not leaf.shape:
        return tree.read_scalar(leaf.path)
    (value,) = tree.read(leaf.path, 0, 1).tolist()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _parent(arrays: Mapping[str, str]) -> str:
    """Return the group of an episode, from one of its arrays."""
    name, path = next(iter(arrays.items()))
    return path.removesuffix(name).rstrip("/")
