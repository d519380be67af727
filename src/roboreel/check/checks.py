"""The forms that a check has: a function over the dataset, or a scan of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from roboreel.findings import RULES, TIERS, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from roboreel.check.context import Context
    from roboreel.check.data_file import Block, DataFile
    from roboreel.findings import Tier


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A rule that could not be checked, or only in part, for a reason that is no finding itself."""

    code: str
    reason: str


Outcome = Finding | NotChecked
"""What a check yields."""


@dataclass(frozen=True, slots=True)
class Check:
    """A function that looks at a dataset and yields what is wrong with it.

    It may raise a `DatasetError`, which becomes a finding that its codes were not checked.
    """

    codes: tuple[str, ...]
    """The codes of its findings, all of one tier."""
    run: Callable[[Context], Iterable[Outcome]]
    applies: Callable[[Context], bool] = lambda _: True
    """Whether there is something to check; where not, its codes do not count as checked."""
    also: tuple[str, ...] = ()
    """Codes of other tiers that it adds findings to. It runs if one of them is asked for."""

    @property
    def tier(self) -> Tier:
        """What it has to read."""
        return max((RULES[code].tier for code in self.codes), key=TIERS.index)


class Scan:
    """Looks at the rows of a dataset as they pass by. All scans share one pass over the files.

    A subclass overrides what it needs.

    Args:
        context: The dataset under check.
    """

    codes: ClassVar[tuple[str, ...]]
    """The codes of its findings."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def file(self, file: DataFile) -> Iterable[Outcome]:
        """Look at a data file and its counters, before its blocks."""
        return ()

    def block(self, block: Block) -> Iterable[Outcome]:
        """Look at the values of some rows of a data file, of whole episodes where there are any."""
        return ()

    def lose(self, feature: str | None) -> None:
        """Take note that rows cannot be read: those of one feature, or all of a file."""

    def pause(self) -> Iterable[Outcome]:
        """Say what is known of the files so far; others go on with `state`."""
        return ()

    def finish(self) -> Iterable[Outcome]:
        """Say what only all rows together tell."""
        return ()

    def state(self) -> dict[str, Any]:
        """Return what `finish` needs of the files so far, for `merge` in another process."""
        return {}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add what another scan of this kind knows of the files that follow."""

    @classmethod
    def reads_values(cls) -> bool:
        """Return whether it looks at more than the counters."""
        return cls.block is not Scan.block
