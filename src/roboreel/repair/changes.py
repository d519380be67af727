"""What a repair does to one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from roboreel.format.edits import ABSENT, Difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from roboreel.format.edits import FileEdit

_MOST_SHOWN = 6
_WIDTH = 80
_LEAST_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A file that is written anew, moved or set aside."""

    kind: Literal["write", "move", "aside"]
    file: str
    """Path below the dataset's folder, with forward slashes; of a moved file, the new one."""
    codes: tuple[str, ...]
    """The rules because of which it changes."""
    differences: tuple[Difference, ...] = ()
    size_bytes: int = 0
    """Bytes that are written, about; of a file that is moved or set aside, its size."""
    source: str | None = None
    """Where a moved file lies now."""
    write: Callable[[Path, Path], None] | None = field(default=None, compare=False)
    """Takes the dataset's folder and the path to write to."""

    def lines(self) -> Iterator[str]:
        """Yield the change as lines of a diff."""
        codes = f"  ({', '.join(self.codes)})" if self.codes else ""
        if self.kind == "move":
            yield f"{self.source} -> {self.file}{codes}"
            return
        fate = "  is set aside" if self.kind == "aside" else ""
        yield f"{self.file}{codes}{fate}"
        for one in self.differences[:_MOST_SHOWN]:
            yield from _diff(one)
        if len(self.differences) > _MOST_SHOWN:
            yield f"  and {len(self.differences) - _MOST_SHOWN:,} more values"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "kind": self.kind,
            "file": self.file,
            "source": self.source,
            "codes": list(self.codes),
            "size_bytes": self.size_bytes,
            "differences": [
                {"what": one.what, "old": _plain(one.old), "new": _plain(one.new)}
                for one in self.differences
            ],
        }


def written(edit: FileEdit, codes: tuple[str, ...]) -> PlannedChange:
    """Return the change that writes a file anew."""
    return PlannedChange(
        "write", edit.file, codes, edit.differences, edit.size_bytes, None, edit.write
    )


def move(source: str, file: str, codes: tuple[str, ...], size_bytes: int) -> PlannedChange:
    """Return the change that moves a file."""
    return PlannedChange("move", file, codes, (), size_bytes, source)


def aside(file: str, codes: tuple[str, ...], size_bytes: int) -> PlannedChange:
    """Return the change that sets a file aside."""
    return PlannedChange("aside", file, codes, (), size_bytes)


def _diff(one: Difference) -> Iterator[str]:
    if one.old is not ABSENT:
        yield _line(f"- {one.what}: ", one.old)
    if one.new is not ABSENT:
        yield _line(f"+ {one.what}: ", one.new)


def _line(start: str, value: object) -> str:
    """Return a line of the diff, whose value is cut off if it is long."""
    text = value if isinstance(value, str) else repr(value)
    room = max(_LEAST_CHARACTERS, _WIDTH - len(start))
    return start + (text if len(text) <= room else f"{text[: room - 1]}…")


def _plain(value: object) -> object:
    return None if value is ABSENT else value
