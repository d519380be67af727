"""Which array of a file holds the times of which other one: by their names and lengths."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.importing.array_tree import Leaf

__all__ = ["have_own_times", "is_time_name", "pair_times"]

_UNIT = r"(?:[_\-.]?(?:s|sec|secs|ms|msec|us|usec|ns|nsec|nanos|seconds))?"
_WORD = r"(?:time[_\-]?stamps?|times?|ts|stamps?)"
_ALONE = re.compile(rf"(?:{_WORD}|t){_UNIT}", re.IGNORECASE)
_BRACKETS = re.compile(r"\s*[\[(](\w+)[\])]$")
"""A unit behind the name of a column: ``Time [ms]``."""
_GROUP = re.compile(rf"{_WORD}{_UNIT}", re.IGNORECASE)
_BEHIND = re.compile(rf"(.+)[_\-.]{_WORD}{_UNIT}", re.IGNORECASE)
_BEFORE = re.compile(rf"{_WORD}{_UNIT}[_\-.](.+)", re.IGNORECASE)


def is_time_name(name: str) -> bool:
    """Return whether an array or column is called times, or lies in a group that is.

    Examples:
        >>> is_time_name("robot/timestamp_ns"), is_time_name("timestamps/front"), is_time_name("front")
        (True, True, False)
    """
    *groups, last = _BRACKETS.sub(r"_\1", name.strip()).split("/")
    return _ALONE.fullmatch(last) is not None or any(_GROUP.fullmatch(one) for one in groups)


def pair_times(arrays: Mapping[str, Leaf]) -> dict[str, str]:
    """Return the array with the times of each other one of an episode, by name; only equal lengths.

    The first of these: one of its own name (``joints_timestamps`` for ``joints``), one in its group
    or a group above, one of a part of its path (``timestamps/front`` for ``images/front``), the only
    one of its length.

    Args:
        arrays: The arrays of an episode, by their path inside it.
    """
    times = {name: leaf for name, leaf in arrays.items() if _may_be_times(name, leaf)}
    pairs = {}
    for name, leaf in arrays.items():
        fitting = [other for other, of in times.items() if of.rows == leaf.rows and other != name]
        if not leaf.shape or leaf.kind == "other" or not fitting or _is_surely_times(name, times):
            continue
        found = _nearest(name, fitting)
        if found is None and len(fitting) == 1:
            found = fitting[0]
        if found is not None:
            pairs[name] = found
    used = set(pairs.values())
    return {name: other for name, other in pairs.items() if name not in used}


def have_own_times(arrays: Mapping[str, Leaf], pairs: Mapping[str, str]) -> bool:
    """Return whether streams of an episode have rates of their own: arrays with times differ in length."""
    return len({arrays[name].rows for name in pairs if arrays[name].rows > 1}) > 1


def _may_be_times(name: str, leaf: Leaf) -> bool:
    flat = len(leaf.shape) == 1 or leaf.shape[1:] == (1,)
    flat = flat or (leaf.shape[1:] == (2,) and leaf.dtype.lstrip("u").startswith("int"))
    if leaf.kind != "numbers" or leaf.dtype in ("bool", "uint8", "int8") or not flat:
        return False
    *groups, last = name.split("/")
    found = (_ALONE.fullmatch(last), _BEHIND.fullmatch(last), _BEFORE.fullmatch(last))
    return any(found) or any(_GROUP.fullmatch(group) for group in groups)


def _is_surely_times(name: str, times: Mapping[str, Leaf]) -> bool:
    return name in times and _BEHIND.fullmatch(name.rsplit("/", 1)[-1]) is None


def _nearest(name: str, fitting: list[str]) -> str | None:
    """Return the times that belong to an array by their names."""
    *groups, last = name.split("/")
    place = "/".join(groups)
    for other in fitting:
        parent, _, word = other.rpartition("/")
        found = _BEHIND.fullmatch(word) or _BEFORE.fullmatch(word)
        if parent == place and found and found[1] == last:
            return other
    for depth in range(len(groups), -1, -1):
        above = "/".join(groups[:depth])
        for other in fitting:
            parent, _, word = other.rpartition("/")
            if parent == above and _ALONE.fullmatch(word):
                return other
    for part in reversed([*groups, last]):
        about = [other for other in fitting if part in _parts(other)]
        if len(about) == 1:
            return about[0]
    return None


def _parts(name: str) -> set[str]:
    """Return what the path of an array of times is about: ``front`` of ``timestamps/front``."""
    about = set()
    for part in name.split("/"):
        found = _BEHIND.fullmatch(part) or _BEFORE.fullmatch(part)
        about.add(found[1] if found else part)
    return about
