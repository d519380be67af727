"""What one writer does, what must hold when it was stopped anywhere, and what all have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Ending = Literal["done", "killed", "failed", "cut"]
    Say = Callable[[str], None]

__all__ = ["Remains", "Scenario", "check_no_litter"]


@dataclass(frozen=True)
class Remains:
    """What is left of a run."""

    folder: Path
    said: Sequence[str]
    """What the writer had told its caller."""
    ending: Ending
    """How the run ended: by itself, by a kill, by an error, or by a power cut."""

    def count(self, word: str) -> int:
        """Return how often something was said."""
        return list(self.said).count(word)


@dataclass(frozen=True)
class Scenario:
    """One writer at work, and what must hold afterwards."""

    name: str
    run: Callable[[Path, Say], object]
    """Changes files below a folder, and says what it has been promised."""
    verify: Callable[[Remains], None]
    """Checks what is left, runs the writer again and checks what it leaves then."""
    prepare: Callable[[Path], object] = lambda folder: None
    """Fills the folder before the run."""
    modules: tuple[str, ...] = ()
    """What to import before processes are forked, to save time."""
    survives_power_cuts: bool = True
    """Whether that is promised."""


def check_no_litter(folder: Path) -> None:
    """Check that no file has a temporary name, except in what was set aside as it was found."""
    found = (path for path in folder.rglob("*") if "aside" not in path.parts)
    litter = [path for path in found if ".tmp-" in path.name or path.suffix == ".tmp"]
    assert not litter, f"left behind: {[str(path.relative_to(folder)) for path in litter]}"
