"""Which findings can be repaired, in view of all others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roboreel.format.counters import EPISODE_NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roboreel.findings import Finding

__all__ = ["settle_fixable"]

_OWNERS = "RR204"
_OF_ROWS = ("RR202", "RR205", "RR206", "RR207", "RR209")
_STATISTICS = ("RR111", "RR501", "RR502", "RR503", "RR504", "RR505", "RR506")
_UNREADABLE = ("RR104", "RR107", "RR201", "RR210", "RR211", "RR212", "RR213")


def settle_fixable(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings that say of themselves whether they can be repaired.

    A repair needs to know what is true. Where rows belong to no certain episode, nothing about them
    can be counted, and where values cannot be read, their statistics cannot be computed.
    """
    found = list(findings)
    unclear = any(one.code == _OWNERS for one in found)
    lost = any(_hides_rows(one) for one in found)
    unreadable = {one.feature for one in found if one.code in _UNREADABLE and one.feature}
    blocked = {
        one
        for one in found
        if one.fixable
        and (
            (unclear and one.code in (*_OF_ROWS, *_STATISTICS))
            or (lost and _needs_values(one))
            or (_needs_values(one) and one.feature in unreadable)
        )
    }
    return [replace(one, fixable=False) if one in blocked else one for one in found]


def _hides_rows(found: Finding) -> bool:
    """Whether rows of all features cannot be read, and will not be."""
    is_data = found.file is not None and found.file.endswith(".parquet")
    return (
        found.code in ("RR104", "RR107", "RR201")
        and is_data
        and not found.fixable
        and found.feature in (None, EPISODE_NUMBER)
    )


def _needs_values(found: Finding) -> bool:
    return found.code in _STATISTICS and not (
        found.code == "RR111" and "tasks" in (found.file or "")
    )
