"""What a corruption is: one thing that is wrong with a dataset, and the finding it must cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tests.clean import VERSIONS
from tests.surgery import Folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Restores = Literal["bytes", "values"] | None

STATISTICS = ("RR501", "RR506")
"""What follows when values change and the stored statistics do not."""


@dataclass(frozen=True)
class Place:
    """What a finding must name: one of the files or one of the episodes, and the feature."""

    files: tuple[str, ...] = ()
    episodes: tuple[int, ...] = ()
    feature: str | None = None

    def is_named_by(self, finding: Any) -> bool:
        """Return whether a finding is about this place; one without a feature may be."""
        if None not in (self.feature, finding.feature) and self.feature != finding.feature:
            return False
        return finding.file in self.files or finding.episode in self.episodes


@dataclass(frozen=True)
class Corruption:
    """One thing that is wrong with a dataset, and what must be said and done about it."""

    name: str
    code: str
    """The code that ``roboreel check`` must report."""
    change: Callable[[Folder], Place]
    versions: tuple[str, ...] = VERSIONS
    """Where it can occur."""
    fixable: bool = False
    """Whether ``roboreel repair`` has an answer."""
    restores: Restores = None
    """Whether the repaired dataset has the bytes of the clean one, or the same values."""
    also: tuple[str, ...] = ()
    """Codes of findings that may follow from it."""

    def apply(self, root: Path) -> Place:
        """Corrupt a copy of the clean dataset, and return what a finding must name."""
        return self.change(Folder(root))

    def __str__(self) -> str:
        return self.name


def corruption(
    code: str,
    *,
    versions: tuple[str, ...] = VERSIONS,
    restores: Restores = None,
    also: tuple[str, ...] = (),
) -> Callable[[Callable[[Folder], Place]], Corruption]:
    """Make a `Corruption` out of the function that causes it, whose name becomes its own.

    What can be restored is fixable.
    """

    def make(change: Callable[[Folder], Place]) -> Corruption:
        name = change.__name__.replace("_", "-")
        return Corruption(name, code, change, versions, restores is not None, restores, also)

    return make
