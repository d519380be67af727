"""In which unit an array counts time. Pure: numbers and names in, a unit out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["TimeUnit", "find_units", "flat_times", "to_ns"]

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
    """Return the unit of each array of times in a file; arrays that do not tell are left out.

    What tells first, counts: an attribute of the array; the end of its name, such as ``_ns``; times
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
        unit = _told(name, (said or {}).get(name)) or _on_the_clock(times)
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


def _told(name: str, said: str | None) -> TimeUnit | None:
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
