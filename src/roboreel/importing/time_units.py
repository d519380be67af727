"""Arrays of times: which other array they belong to, and in which unit they count. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.importing.array_tree import Leaf

_NAMES = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_SHORT = {
    "s": "seconds",
    "sec": "seconds",
    "secs": "seconds",
    "second": "seconds",
    "ms": "milliseconds",
    "msec": "milliseconds",
    "millis": "milliseconds",
    "millisecond": "milliseconds",
    "us": "microseconds",
    "usec": "microseconds",
    "micros": "microseconds",
    "microsecond": "microseconds",
    "ns": "nanoseconds",
    "nsec": "nanoseconds",
    "nanos": "nanoseconds",
    "nanosecond": "nanoseconds",
} | {name: name for name in _NAMES}
_ENDING = re.compile(r"(?:[_\-.]|\s*[\[(])([A-Za-z]+)[\])]?$")
_CLOCK_S = (978_307_200, 4_102_444_800)
"""The years 2001 to 2100, in seconds since 1970."""
_USUAL_RATES = (1.0, 1000.0)
_POSSIBLE_RATES = (1e-3, 1e5)


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """The unit of an array of times, and how that is known."""

    name: str
    """``seconds``, ``milliseconds``, ``microseconds`` or ``nanoseconds``."""
    reason: str

    @property
    def ticks(self) -> int:
        """How many of it are a second."""
        return _NAMES[self.name]


def find_units(
    arrays: Mapping[str, NDArray[Any]], said: Mapping[str, str] | None = None
) -> dict[str, TimeUnit]:
    """Return the unit of each array of times in a file; arrays without a sign of it are left out.

    The first of these signs decides: an attribute of the array; the end of its name, such as
    ``_ns``; times
    of the years 2001 to 2100. The others share a unit, whole numbers and floating point each for
    themselves: the one in which most of them have 1 to 1000 values a second. Floating point that has
    such a rate in no unit counts seconds.

    Args:
        arrays: Times, ``(N,)``, by name.
        said: What an attribute says of the unit, by name.

    Examples:
        >>> arrays = {"camera": np.arange(9) * 33, "joints": np.arange(9) * 5}
        >>> find_units(arrays)["joints"].name
        'milliseconds'
    """
    found: dict[str, TimeUnit] = {}
    for name, times in arrays.items():
        unit = _declared_unit(name, (said or {}).get(name)) or _on_the_clock(times)
        if unit is not None:
            found[name] = unit
    for kinds in ("f", "iu"):
        rest = {n: t for n, t in arrays.items() if n not in found and t.dtype.kind in kinds}
        steps = [_usual_step(times) for times in rest.values()]
        unit = _by_rate(steps)
        if unit is None and kinds == "f" and any(step not in (0, 1) for step in steps):
            unit = TimeUnit("seconds", "floating point usually counts seconds")
        if unit is not None:
            found |= dict.fromkeys(rest, unit)
    return found


def flat_times(values: NDArray[Any]) -> NDArray[Any]:
    """Return times of one column; of two, whole seconds and nanoseconds, their sum in nanoseconds.

    Examples:
        >>> flat_times(np.array([[1, 5], [2, 0]])).tolist()
        [1000000005, 2000000000]
    """
    if values.ndim == 2 and values.shape[1] == 2:
        return values[:, 0].astype(np.int64) * 10**9 + values[:, 1].astype(np.int64)
    return values.reshape(-1)


def to_ns(times: NDArray[Any], unit: TimeUnit, where: str) -> NDArray[np.int64]:
    """Return times in nanoseconds, ``(N,)``.

    Args:
        times: As they are in the file.
        unit: Their unit.
        where: What they are, for the error.

    Raises:
        SourceError: Some are not numbers, or too large.
    """
    scale = 10**9 // unit.ticks
    if times.size and not (np.abs(times.astype(np.float64)) < 2**62 / scale).all():
        raise SourceError(f"Some times in {where} are not numbers, or no {unit.name}.")
    if times.dtype.kind == "f":
        return np.rint(times.astype(np.float64) * scale).astype(np.int64)
    return times.astype(np.int64) * scale


def _declared_unit(name: str, said: str | None) -> TimeUnit | None:
    unit = _SHORT.get((said or "").strip().lower())
    if unit is not None:
        return TimeUnit(unit, "its attribute says so")
    ending = _ENDING.search(name)
    unit = _SHORT.get(ending[1].lower()) if ending else None
    return None if unit is None else TimeUnit(unit, "its name says so")


def _on_the_clock(times: NDArray[Any]) -> TimeUnit | None:
    """Return the unit in which times are those of our days."""
    if not len(times):
        return None
    middle, step = float(np.median(times)), _usual_step(times)
    for name, ticks in _NAMES.items():
        in_our_days = _CLOCK_S[0] <= middle / ticks <= _CLOCK_S[1]
        # Microseconds since the start of a computer can be as large as seconds since 1970.
        if in_our_days and (step == 0 or _within(ticks / step, _POSSIBLE_RATES)):
            return TimeUnit(name, "they lie in the years 2001 to 2100")
    return None


def _by_rate(steps: list[float]) -> TimeUnit | None:
    """Return the unit in which most arrays have a usual rate; None if none has in any."""
    steps = [step for step in steps if step > 0]
    if not steps or all(step == 1 for step in steps):
        return None  # Steps of exactly 1 count frames, not time.
    fitting = {
        name: sum(_within(ticks / step, _USUAL_RATES) for step in steps)
        for name, ticks in _NAMES.items()
    }
    best = max(fitting, key=lambda name: fitting[name])
    return TimeUnit(best, "1 to 1000 values a second are usual") if fitting[best] else None


def _usual_step(times: NDArray[Any]) -> float:
    steps = np.diff(times.astype(np.float64))
    usual = float(np.median(steps)) if len(steps) else 0.0
    return usual if np.isfinite(usual) and usual > 0 else 0.0


def _within(value: float, span: tuple[float, float]) -> bool:
    return span[0] <= value <= span[1]


# Which array of a file holds the times of which other one: by their names and lengths.

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
