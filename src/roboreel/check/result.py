"""The findings of one run, and what was and was not checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, overload

from roboreel.findings import SEVERITIES, Finding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.findings import Severity, Tier


@dataclass(frozen=True, slots=True)
class Findings(Sequence[Finding]):
    """What is wrong with a dataset: a sequence of findings, sorted by code and place.

    Examples:
        >>> from roboreel.check import check_dataset
        >>> findings = check_dataset("my_dataset")  # doctest: +SKIP
        >>> [(f.code, f.episode, str(f)) for f in findings.errors]  # doctest: +SKIP
    """

    root: Path
    """The dataset's folder."""
    tier: Tier
    """The dearest tier that was asked for."""
    found: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    """Codes of the rules that were checked."""
    not_checked: Mapping[str, str] = field(default_factory=dict)
    """Why each of the other rules was not checked, or not in full, by code."""
    known: tuple[Finding, ...] = ()
    """Findings that a baseline lists; they are not part of the sequence."""

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        return self.found[index]

    def __len__(self) -> int:
        return len(self.found)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings because of which training reads a wrong value, or fails."""
        return self.at_least("error")

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings that are as severe as this, or more."""
        worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return tuple(found for found in self.found if found.severity in worst)

    @property
    def counts(self) -> dict[Severity, int]:
        """How many findings there are of each severity, the worst first."""
        return {one: sum(found.severity == one for found in self.found) for one in SEVERITIES}

    def exit_code(self, fail_on: Severity = "error") -> int:
        """Return what a command ends with.

        Returns:
            1 if there are findings as severe as ``fail_on``, otherwise 2 if something could not be
            checked, otherwise 0.
        """
        if any(found.code != "RR001" for found in self.at_least(fail_on)):
            return 1
        return 2 if any(found.code == "RR001" for found in self.found) else 0

    def by_code(self) -> dict[str, list[Finding]]:
        """Return the findings of each code, in the order of the codes."""
        groups: dict[str, list[Finding]] = {}
        for found in self.found:
            groups.setdefault(found.code, []).append(found)
        return dict(sorted(groups.items()))

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "path": str(self.root),
            "tier": self.tier,
            "counts": self.counts,
            "findings": [{"name": found.rule.name, **asdict(found)} for found in self.found],
            "known": len(self.known),
            "checked": list(self.checked),
            "not_checked": dict(self.not_checked),
        }
