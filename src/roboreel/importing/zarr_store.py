"""Zarr stores as recordings: diffusion policy, UMI, and stores of no known layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.array_recording import ArrayEpisode, ArrayRecording, describe_columns
from roboreel.importing.plain_tree import open_plain, rate_of, task_of
from roboreel.importing.tree_layouts import find_episode_ends
from roboreel.importing.zarr_tree import ZarrTree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.importing.array_tree import Leaf
    from roboreel.importing.recording import Recording

__all__ = ["open_source"]

_MOST_EPISODES = 10_000_000


def open_source(path: Path) -> Recording:
    """Open a Zarr store of version 2 or 3: a folder, or a zip file of one.

    Raises:
        CorruptFileError: It is damaged.
        SourceError: There is nothing in it that has steps.
    """
    tree = ZarrTree(path)
    try:
        leaves = tree.leaves()
        ends = find_episode_ends(leaves)
        if ends is not None:
            return _open_replay_buffer(tree, leaves, ends)
        return open_plain(tree, leaves, "zarr")
    except BaseException:
        tree.close()
        raise


def _open_replay_buffer(tree: ZarrTree, leaves: Mapping[str, Leaf], path: str) -> Recording:
    """All episodes lie one after the other in the same arrays; a list says where each ends."""
    ends = _ends(tree, leaves[path])
    parent = path.rpartition("/")[0]
    top = f"{parent.rpartition('/')[0]}/".lstrip("/") + "data/"
    arrays = {p.removeprefix(top): p for p in leaves if p.startswith(top)}
    if not arrays:
        arrays = {p: p for p in leaves if p != path and not (parent and p.startswith(parent))}
    starts = np.concatenate([[0], ends[:-1]])
    task = task_of(tree, leaves, "")
    episodes = [
        ArrayEpisode(str(number), int(end - start), arrays, int(start), is_part=True, task=task)
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    columns = describe_columns(tree, leaves, episodes)
    layout = "umi" if any(name.startswith("camera0_") for name in arrays) else "diffusion_policy"
    rate = rate_of(tree, leaves, episodes[0])
    recording = ArrayRecording(tree, leaves, layout, episodes, columns, rate, used=[path])
    recording.remarks = tuple(_remarks(tree, leaves, arrays.values(), int(ends[-1])))
    return recording


def _remarks(
    tree: ZarrTree, leaves: Mapping[str, Leaf], paths: Collection[str], end: int
) -> Iterator[str]:
    """Yield sentences on rows that are not imported, and on those that are not stored."""
    extra = max((leaves[path].rows for path in paths), default=0) - end
    if extra > 0:
        yield f"{extra} rows after the end of the last episode are left out."
    for path in (path for path in paths if leaves[path].kind != "other"):
        missing, count = tree.missing_chunks(path)
        if missing:
            yield (
                f"{missing} of the {count} chunks of {path} are not stored, and are read as the "
                "array's fill value."
            )


def _ends(tree: ZarrTree, leaf: Leaf) -> NDArray[np.int64]:
    if leaf.kind != "numbers" or len(leaf.shape) != 1 or not 0 < leaf.rows <= _MOST_EPISODES:
        raise SourceError(f"{leaf.path!r} does not list the ends of episodes: {str(tree.path)!r}.")
    ends = tree.read(leaf.path, 0, leaf.rows).astype(np.int64)
    if ends[0] < 0 or (np.diff(ends) < 0).any():
        raise SourceError(f"The episode ends in {leaf.path!r} do not ascend: {str(tree.path)!r}.")
    return ends
