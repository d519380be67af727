"""Lengths of time in words: ``50ms``, ``2s``."""

from __future__ import annotations

import math
import re

from roboreel.errors import SourceError

__all__ = ["format_ns", "parse_ns"]

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_PATTERN = re.compile(r"^\s*([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s)\s*$")


def parse_ns(text: object, name: str) -> int:
    """Return a length of time in nanoseconds; -1 for ``none``, which means any.

    Raises:
        SourceError: It is something else.

    Examples:
        >>> parse_ns("50ms", "max_gap"), parse_ns("none", "max_gap")
        (50000000, -1)
    """
    if isinstance(text, str) and text.strip().lower() in ("none", "any"):
        return -1
    found = _PATTERN.match(text) if isinstance(text, str) else None
    length = float(found[1]) * _UNITS[found[2]] if found else math.nan
    if found is None or not 0 < length < 2**62:
        raise SourceError(f"{name} is {text!r}: give a number with its unit, such as 50ms or 2s.")
    return round(length)


def format_ns(length: int) -> str:
    """Return a length of time in words.

    Examples:
        >>> format_ns(50_000_000), format_ns(1_500_000_000), format_ns(-1)
        ('50ms', '1.5s', 'none')
    """
    if length < 0:
        return "none"
    for unit in ("s", "ms", "us"):
        if length >= _UNITS[unit]:
            return f"{length / _UNITS[unit]:.12g}{unit}"
    return f"{length}ns"
