"""Known layouts of array files: which arrays belong to which episode. No value is read."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from roboreel.importing.array_tree import Leaf

TASK_NAMES = (
    "language_instruction",
    "natural_language_instruction",
    "instruction",
    "task",
    "task_description",
    "language",
    "language_raw",
    "prompt",
    "current_task",
)
"""Names under which files keep the task in words, the most telling first."""

ENDS = "episode_ends"
"""The array that lists where episodes end, in the layout of diffusion policy."""

_PARTS = re.compile(
    r"cam|image|rgb|depth|arm|robot|sensor|joint|view|gripper|hand|finger", re.IGNORECASE
)
"""Names of things of which one robot has several."""
_EPISODES = re.compile(r"$|(ep|demo|traj|roll|seq|run|trial)", re.IGNORECASE)
_NUMBERED = re.compile(r"^(.*?)[_\-. ]?(\d+)$")


def find_act(leaves: Mapping[str, Leaf]) -> bool:
    """Return whether a file has the layout of ACT and ALOHA: one episode, with joint positions."""
    return "action" in leaves and "observations/qpos" in leaves


def find_robomimic(leaves: Mapping[str, Leaf]) -> dict[str, dict[str, str]] | None:
    """Return the arrays of each episode in the layout of robomimic, by name of the stream."""
    groups = _children(leaves, "data")
    demos = {name: arrays for name, arrays in groups.items() if "actions" in arrays}
    if not demos or not all(_NUMBERED.match(name) for name in demos):
        return None
    return {name: demos[name] for name in sorted(demos, key=natural_key)}


def find_episode_ends(leaves: Mapping[str, Leaf]) -> str | None:
    """Return the array that says where episodes end, in the layout of diffusion policy."""
    return next((p for p in leaves if p.rsplit("/", 1)[-1] == ENDS), None)


def episode_groups(leaves: Mapping[str, Leaf]) -> dict[str, dict[str, str]]:
    """Return the arrays of each episode of a file whose layout is not known.

    Numbered groups with one name (``episode_0``, ``episode_1``) are episodes, at the top or below a
    single group. If their name says that they are episodes, other groups may stand beside them,
    such as ``calibration``. Otherwise the whole file is one.
    """
    tops = {path.split("/", 1)[0] for path in leaves if "/" in path}
    for parent in ["", *sorted(tops)]:
        groups = _named_episodes(_children(leaves, parent))
        matched = [_NUMBERED.match(name) for name in groups]
        stems = {found.group(1) for found in matched if found}
        inside = {path for arrays in groups.values() for path in arrays.values()}
        alone = all(path in inside for path, leaf in leaves.items() if leaf.shape)
        if groups and all(matched) and len(stems) == 1 and _are_episodes(stems.pop(), alone):
            return {name: groups[name] for name in sorted(groups, key=natural_key)}
    return {"0": {path: path for path in leaves}}


def _named_episodes(groups: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Return the groups that are called episodes, if there are any, otherwise all."""
    found = {name: _NUMBERED.match(name) for name in groups}
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


def usual_rows(leaves: Iterable[Leaf]) -> int:
    """Return how many steps arrays have: those of the actions, or what most of them have."""
    with_rows = [leaf for leaf in leaves if leaf.shape]
    for leaf in with_rows:
        if leaf.path.rsplit("/", 1)[-1] in ("action", "actions"):
            return leaf.rows
    counted = Counter(leaf.rows for leaf in with_rows)
    return max(counted, key=lambda rows: (counted[rows], rows)) if counted else 0


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a key that sorts ``demo_10`` behind ``demo_9``.

    Examples:
        >>> sorted(["demo_10", "demo_9"], key=natural_key)
        ['demo_9', 'demo_10']
    """
    parts = re.split(r"(\d+)", name)
    return tuple((1, int(part)) if part.isdigit() else (0, part) for part in parts if part)


def _children(leaves: Mapping[str, Leaf], parent: str) -> dict[str, dict[str, str]]:
    """Return the arrays below each group of a parent, by their path inside that group."""
    prefix = f"{parent}/" if parent else ""
    groups: dict[str, dict[str, str]] = {}
    for path in leaves:
        group, slash, rest = path.removeprefix(prefix).partition("/")
        if path.startswith(prefix) and slash:
            groups.setdefault(group, {})[rest] = path
    return groups
