"""Mappings as TOML files, read and written."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import TYPE_CHECKING, Any

from roboreel.errors import SourceError
from roboreel.importing.mapping import EpisodeRule, FeatureMap, ImportMap, TaskRule
from roboreel.io.reading import read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MOST_BYTES = 4 * 1024**2
_TOP = ("fps", "align", "max_gap", "clock", "follow", "drop_last", "task", "episodes", "features")
_FEATURE = (
    *("stream", "streams", "field", "elements", "unit", "shift", "dtype"),
    *("flip", "resize", "channels", "store", "align", "max_gap"),
)
_EPISODES = ("by", "gap", "stream", "times", "start", "stop", "active")


def read_map(path: Path) -> ImportMap:
    """Read a mapping.

    Raises:
        SourceError: It cannot be understood; the message ends with the path.
    """
    try:
        raw = tomllib.loads(read_file(path, "mapping", most_bytes=_MOST_BYTES).decode())
    except (ValueError, RecursionError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"The mapping is not TOML: {error}: {str(path)!r}.") from error
    try:
        return map_from_json(raw)
    except SourceError as error:
        raise SourceError(f"{error} In the mapping {str(path)!r}.") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise SourceError(f"The mapping has a wrong value: {error}: {str(path)!r}.") from error


def map_from_json(raw: Mapping[str, Any]) -> ImportMap:
    """Return the mapping that plain values spell, as TOML does.

    Raises:
        SourceError: A key or a value is not known.
    """
    _check_keys(raw, _TOP, "the mapping")
    task = raw.get("task")
    if isinstance(task, dict):
        _check_keys(task, ("text", "stream"), "task")
    elif task is not None:
        task = {"text": _text(task, "task")}
    features = raw.get("features", {})
    if not isinstance(features, dict):
        raise SourceError('features is not a table: write [features."observation.state"].')
    rest = {key: raw[key] for key in ("fps", "align", "clock", "follow", "drop_last") if key in raw}
    _check_number(rest.get("fps"), "fps")
    return ImportMap(
        {name: _feature(name, given) for name, given in features.items()},
        task=TaskRule(**(task or {})),
        episodes=_episodes(raw.get("episodes", {})),
        max_gap_ns=parse_ns(raw["max_gap"], "max_gap") if "max_gap" in raw else None,
        **rest,
    )


def map_to_json(mapping: ImportMap) -> dict[str, Any]:
    """Return a mapping as plain values that `map_from_json` reads."""
    rule, task = mapping.episodes, mapping.task
    found: dict[str, Any] = {
        "fps": mapping.fps,
        "align": mapping.align,
        "max_gap": None if mapping.max_gap_ns is None else format_ns(mapping.max_gap_ns),
        "clock": mapping.clock,
        "follow": mapping.follow,
        "drop_last": mapping.drop_last or None,
        "task": _given({"text": task.text, "stream": task.stream}) or None,
        "episodes": _given(
            {
                "by": rule.by,
                "gap": None if rule.gap_ns is None else format_ns(rule.gap_ns),
                "stream": rule.stream,
                "times": [list(pair) for pair in rule.times] or None,
                "start": rule.start,
                "stop": rule.stop,
                "active": rule.active,
            }
        ),
        "features": {name: _feature_to_json(one) for name, one in mapping.features.items()},
    }
    return _given(found)


def map_to_toml(mapping: ImportMap, *, unmapped: Mapping[str, str] | None = None) -> str:
    """Return a mapping as TOML, with what is not mapped as comments.

    Args:
        mapping: The mapping.
        unmapped: By stream, why it is not mapped.
    """
    raw = map_to_json(mapping)
    lines = [f"{key} = {_toml(v)}" for key, v in raw.items() if key not in ("features", "episodes")]
    lines += ["", "[episodes]", *(f"{key} = {_toml(v)}" for key, v in raw["episodes"].items())]
    for name, feature in raw["features"].items():
        lines += ["", f"[features.{_toml(name)}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in feature.items()]
    if unmapped:
        lines += ["", "# Not mapped:"]
        lines += [f"# {_toml(name)}: {_toml(why)[1:-1]}" for name, why in unmapped.items()]
    return "\n".join(lines) + "\n"


def _feature(name: str, raw: object) -> FeatureMap:
    if not isinstance(raw, dict):
        raise SourceError(f"The feature {name!r} is {raw!r}: write stream = '…' below its name.")
    _check_keys(raw, _FEATURE, f"the feature {name!r}")
    if ("stream" in raw) == ("streams" in raw):
        raise SourceError(f"The feature {name!r} needs stream = '…' or streams = ['…', …].")
    streams = tuple(_text(one, "stream") for one in raw.get("streams", [raw.get("stream")]))
    if "field" in raw:
        streams = tuple(f"{stream}:{_text(raw['field'], 'field')}" for stream in streams)
    given: dict[str, Any] = {
        key: raw[key]
        for key in ("unit", "shift", "dtype", "flip", "channels", "store", "align")
        if key in raw
    }
    if not isinstance(given.get("shift", 0), int):
        raise SourceError(f"shift of {name!r} is {given['shift']!r}: give a number of frames.")
    if "elements" in raw:
        given["elements"] = tuple(raw["elements"])
    if "resize" in raw:
        height, width = raw["resize"]
        given["resize"] = (int(height), int(width))
    if "max_gap" in raw:
        given["max_gap_ns"] = parse_ns(raw["max_gap"], f"max_gap of {name!r}")
    try:
        return FeatureMap(streams, **given)
    except SourceError as error:
        raise SourceError(f"The feature {name!r}: {error}") from error


def _feature_to_json(feature: FeatureMap) -> dict[str, Any]:
    several = len(feature.streams) > 1
    return _given(
        {
            "stream": None if several else feature.streams[0],
            "streams": list(feature.streams) if several else None,
            "elements": None if feature.elements is None else list(feature.elements),
            "unit": feature.unit,
            "shift": feature.shift or None,
            "dtype": feature.dtype,
            "flip": feature.flip,
            "resize": None if feature.resize is None else list(feature.resize),
            "channels": None if feature.channels == "rgb" else feature.channels,
            "store": feature.store,
            "align": feature.align,
            "max_gap": None if feature.max_gap_ns is None else format_ns(feature.max_gap_ns),
        }
    )


def _episodes(raw: object) -> EpisodeRule:
    if not isinstance(raw, dict):
        raise SourceError("[episodes] is not a table.")
    _check_keys(raw, _EPISODES, "[episodes]")
    given: dict[str, Any] = {k: v for k, v in raw.items() if k not in ("gap", "times")}
    times = tuple((float(a), float(b)) for a, b in raw.get("times", []))
    gap = parse_ns(raw["gap"], "gap") if "gap" in raw else None
    return EpisodeRule(gap_ns=gap, times=times, **given)


def _given(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if value is not None}


def _check_keys(raw: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = [key for key in raw if key not in known]
    if unknown:
        raise SourceError(f"{where} has {unknown[0]!r}: known are {', '.join(known)}.".capitalize())


def _check_number(value: object, name: str) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise SourceError(f"{name} is {value!r}: give a number.")


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise SourceError(f"{name} is {value!r}: give a text.")
    return value


def _toml(value: object) -> str:
    """Return a plain value as TOML spells it, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        pairs: Iterator[str] = (f"{key} = {_toml(one)}" for key, one in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # Basic strings of TOML have the escapes of JSON, and DEL must be one of them.
    return json.dumps(value).replace("\x7f", "\\u007f")


# Lengths of time in words: ``50ms``, ``2s``.

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
