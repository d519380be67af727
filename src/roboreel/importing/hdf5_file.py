"""HDF5 files as recordings: ACT, robomimic, LIBERO, and files of no known layout."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from roboreel.importing.array_recording import (
    ArrayEpisode,
    ArrayRecording,
    Rate,
    describe_columns,
)
from roboreel.importing.hdf5_tree import HDF5Tree
from roboreel.importing.plain_tree import open_plain, rate_of, task_of
from roboreel.importing.timed_tree import open_timed, steps_apart
from roboreel.importing.tree_layouts import find_act, find_robomimic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.importing.array_tree import Leaf
    from roboreel.importing.recording import Recording

__all__ = ["open_source"]

_ACT_RATE = Rate(50.0, "the layout act")
_LIBERO_RATE = Rate(20.0, "the layout libero")
_SCENE = re.compile(r"^(?:[A-Z]+_)*[A-Z_]*SCENE\d+_")


def open_source(path: Path) -> Recording:
    """Open an HDF5 file.

    Raises:
        CorruptFileError: It is damaged.
        SourceError: There is nothing in it that has steps.
    """
    tree = HDF5Tree(path)
    try:
        leaves = tree.leaves()
        if find_act(leaves):
            return _open_act(tree, leaves)
        demos = find_robomimic(leaves)
        if demos is not None:
            return _open_robomimic(tree, leaves, demos)
        return open_plain(tree, leaves, "hdf5")
    except BaseException:
        tree.close()
        raise


def _open_act(tree: HDF5Tree, leaves: Mapping[str, Leaf]) -> Recording:
    """One episode. With the attribute ``compress``, rows of images are padded JPEG pictures."""
    length = leaves["action"].rows
    # Of compressed images, how long each is: the padding shows that as well.
    arrays = {path: path for path in leaves if path != "compress_len"}
    metadata = {k: v for k, v in tree.attributes("").items() if k in ("sim", "compress")}
    episode = ArrayEpisode(
        tree.path.stem, length, arrays, task=task_of(tree, leaves, ""), metadata=metadata
    )
    timed = open_timed(tree, leaves, "act", [episode])
    if timed is not None:
        return timed
    columns = describe_columns(tree, leaves, [episode])
    rate = rate_of(tree, leaves, episode)
    rate = rate if rate.fps else _ACT_RATE
    recording = ArrayRecording(tree, leaves, "act", [episode], columns, rate, used=["compress_len"])
    recording.remarks = tuple(steps_apart(tree, leaves, [episode]))
    return recording


def _open_robomimic(
    tree: HDF5Tree, leaves: Mapping[str, Leaf], demos: Mapping[str, Mapping[str, str]]
) -> Recording:
    about = tree.attributes("data")
    is_libero = "problem_info" in about or "bddl_file_name" in about
    masks = _masks(tree, leaves)
    task = _language(about) or (_task_of_name(tree.path.stem) if is_libero else None)
    episodes = [
        ArrayEpisode(
            name,
            leaves[arrays["actions"]].rows,
            arrays,
            task=task_of(tree, leaves, f"data/{name}") or _said_of_demo(tree, name) or task,
            metadata={key: name in names for key, names in masks.items()},
        )
        for name, arrays in demos.items()
    ]
    columns = describe_columns(tree, leaves, episodes)
    rate = _control_rate(about)
    if rate.fps is None and is_libero:
        rate = _LIBERO_RATE
    layout = "libero" if is_libero else "robomimic"
    used = [path for path in leaves if path.startswith("mask/")]
    return ArrayRecording(tree, leaves, layout, episodes, columns, rate, used=used)


def _masks(tree: HDF5Tree, leaves: Mapping[str, Leaf]) -> dict[str, set[str]]:
    """Return which episodes each mask of robomimic lists, such as train and valid."""
    masks: dict[str, set[str]] = {}
    for path, leaf in leaves.items():
        if path.startswith("mask/") and path.count("/") == 1 and len(leaf.shape) == 1:
            names = tree.read(path, 0, leaf.rows).tolist()
            masks[f"mask_{path.removeprefix('mask/')}"] = {
                name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
                for name in names
            }
    return masks


def _control_rate(about: Mapping[str, Any]) -> Rate:
    """Return the rate that the arguments of the simulated environment name."""
    arguments = _json(about.get("env_args"))
    settings = arguments.get("env_kwargs")
    rate = settings.get("control_freq") if isinstance(settings, dict) else None
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < 1e6:
        return Rate(float(rate), "control_freq of its env_args")
    return Rate()


def _language(about: Mapping[str, Any]) -> str | None:
    """Return the instruction of a LIBERO file."""
    said = _json(about.get("problem_info")).get("language_instruction")
    if isinstance(said, list):
        said = "".join(str(part) for part in said)
    return said.strip().strip('"') or None if isinstance(said, str) else None


def _said_of_demo(tree: HDF5Tree, name: str) -> str | None:
    """Return the instruction of one demo, where RoboCasa keeps it."""
    said = _json(tree.attributes(f"data/{name}").get("ep_meta")).get("lang")
    return said.strip() or None if isinstance(said, str) else None


def _task_of_name(stem: str) -> str:
    """Return the instruction that the name of a LIBERO file spells."""
    return _SCENE.sub("", stem.removesuffix("_demo")).replace("_", " ").strip()


def _json(text: object) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
