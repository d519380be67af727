"""Checks of the metadata, and of which files there are. No data file is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.check.checks import Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.check.context import Context
    from roboreel.findings import Finding

__all__ = ["CHECKS"]


def metadata_problems(context: Context) -> Iterator[Finding]:
    """Yield what was found when the metadata was read; `Dataset.problems` shows the same."""
    yield from context.manifest.problems


CHECKS = (
    Check(
        ("RR101", "RR102", "RR103", "RR106", "RR109", "RR111", "RR112", "RR114", "RR203"),
        metadata_problems,
    ),
)
