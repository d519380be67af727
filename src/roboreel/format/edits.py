"""What becomes of one file of a dataset: what it says, what it will say, and how to write it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from roboreel.format.json_files import write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

How = Literal[
    "kept",
    "linked",
    "copied",
    "remuxed",
    "rewritten",
    "re-encoded",
    "moved",
    "set aside",
    "restored",
    "removed",
]
"""What becomes of a file, from the cheapest way to make it to the most expensive."""

ABSENT = object()
"""Stands for a value that is not there."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value of a file, as it is and as it will be."""

    what: str
    """Which value: ``total_frames``, or ``episode 3, length``."""
    old: object
    """`ABSENT` if there is none."""
    new: object
    """`ABSENT` if it goes."""


@dataclass(frozen=True, slots=True)
class FileEdit:
    """What becomes of one file."""

    file: str
    """Path below the dataset's folder, with forward slashes; of a moved file, the new one."""
    differences: tuple[Difference, ...] = ()
    write: Callable[[Path, Path], None] | None = field(default=None, compare=False)
    """Takes the dataset's folder and the path to write to; nothing is synced."""
    size_bytes: int = 0
    """How large it will be, about; of a file that is moved or leaves, its size."""
    how: How = "rewritten"
    codes: tuple[str, ...] = ()
    """The rules of `roboreel check` because of which it changes."""
    source: str | None = None
    """Where a moved file lies now."""

    @property
    def written_bytes(self) -> int:
        """Bytes that are written for it, about."""
        is_written = self.how in ("copied", "remuxed", "rewritten", "re-encoded")
        return self.size_bytes if is_written else 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "file": self.file,
            "how": self.how,
            "size_bytes": self.size_bytes,
            "source": self.source,
            "codes": list(self.codes),
            "differences": [
                {"what": one.what, "old": _plain(one.old), "new": _plain(one.new)}
                for one in self.differences
            ],
        }


def _plain(value: object) -> object:
    return None if value is ABSENT else value


def edit_json(file: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> FileEdit | None:
    """Return the edit by which a JSON file says something else; None if it says the same."""
    differences = tuple(json_differences(old, new))
    if not differences:
        return None
    size = len(json.dumps(new, indent=4, ensure_ascii=False).encode())
    return FileEdit(file, differences, partial(_write_json, new), size)


def json_differences(old: object, new: object, what: str = "") -> Iterator[Difference]:
    """Yield where two JSON values differ; of lists, as a whole.

    Examples:
        >>> [d.what for d in json_differences({"a": 1, "b": {"c": [1]}}, {"a": 1, "b": {"c": [2]}})]
        ['b.c']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            place = f"{what}.{key}" if what else str(key)
            yield from json_differences(old.get(key, ABSENT), new.get(key, ABSENT), place)
    elif old is ABSENT or new is ABSENT or old != new:
        yield Difference(what, old, new)


def _write_json(value: Mapping[str, Any], _root: Path, out: Path) -> None:
    write_json(out, value, sync=False)
