"""roboreel checks a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def check(meter: Meter, root: str, tier: str) -> None:
    """Check a dataset up to a tier, and count what is worse than a note."""
    with meter.step("import"):
        from roboreel.check import check_dataset
    with meter.step("check"):
        findings = check_dataset(root, tier=tier)  # type: ignore[arg-type]  # one of the tiers
    meter.note(findings=len(findings.at_least("warning")))
