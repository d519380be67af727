"""What one writer does, what must hold when it was stopped anywhere, and what all have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

from tests.faults.powercut import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Ending = Literal["done", "killed", "failed", "cut"]
    Say = Callable[[str], None]

__all__ = ["Remains", "Scenario", "check_no_litter"]

SET_ASIDE = "dataset/.recording/aside/"
"""Where recovery keeps journals that it cannot use, whole: see docs/recording.md."""


@dataclass(frozen=True)
class Remains:
    """What is left of a run."""

    folder: Path
    said: Sequence[str]
    """What the writer had told its caller."""
    ending: Ending
    """How the run ended, for the message: by itself, by a kill, by an error, or by a power cut."""
    good: Path | None = None
    """A folder with an empty file for each tree that has passed a check: see `once`."""

    @property
    def is_cut(self) -> bool:
        """Whether the power failed: what was not synced may be missing."""
        return self.ending == "cut"

    def once(self, check: Callable[..., object], root: Path, *facts: object) -> None:
        """Check the visible files of a dataset, unless equal ones have passed it."""
        found = sorted(root.rglob("*"))
        parts = [(path.relative_to(root).as_posix(), path) for path in found if path.is_file()]
        seen = [(name, path.read_bytes()) for name, path in parts if not name.startswith(".")]
        self._unless_good((check.__qualname__, facts, seen), lambda: check(root, *facts))

    def go_on(self, act: Callable[[], object], *facts: object) -> None:
        """Do what depends on the whole folder and on facts alone, unless it went well before.

        Many points leave the same once a commit is finished, or an episode recovered. What recovery set
        aside does not matter: nobody reads it.
        """
        digest = snapshot(self.folder).digest(without=SET_ASIDE)
        self._unless_good((act.__qualname__, digest, self.is_cut, facts), act)

    def _unless_good(self, key: object, act: Callable[[], object]) -> None:
        mark = blake2b(repr(key).encode(), digest_size=16).hexdigest()
        if self.good is None or not (self.good / mark).exists():
            act()
            if self.good is not None:
                (self.good / mark).touch()

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
    moves: bool = True
    """Whether what is left can be checked in any folder; if files name it, only where they were written."""
    maps: bool = False
    """Whether files also change through memory, which no log shows. Then every process that ends is run,
    and power cuts are left to other tests."""

    @property
    def home(self) -> str:
        """The module that says what must hold."""
        verify = self.verify.func if isinstance(self.verify, partial) else self.verify
        return verify.__module__


def check_no_litter(folder: Path) -> None:
    """Check that no file has a temporary name, except in journals that were set aside as found."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    litter = [path for path in found if ".tmp-" in path or path.endswith(".tmp")]
    left = [path for path in litter if not path.startswith(SET_ASIDE)]
    assert not left, f"left behind: {left}"
