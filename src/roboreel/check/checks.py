"""The forms that a check has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.findings import RULES, TIERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roboreel.check.context import Context
    from roboreel.findings import Finding, Tier

__all__ = ["Check"]


@dataclass(frozen=True, slots=True)
class Check:
    """A function that looks at a dataset and yields what is wrong with it.

    It may raise a `DatasetError`, which becomes a finding that its codes were not checked.
    """

    codes: tuple[str, ...]
    """The codes of its findings."""
    run: Callable[[Context], Iterable[Finding]]

    @property
    def tier(self) -> Tier:
        """What it has to read: the dearest tier of its codes."""
        return max((RULES[code].tier for code in self.codes), key=TIERS.index)
