"""The list of all checks, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.check import (
    columns,
    computed,
    content,
    images,
    pointers,
    statistics,
    structure,
    tables,
    time,
    video,
)

if TYPE_CHECKING:
    from roboreel.check.checks import Check, Scan

# A module of checks has a tuple CHECKS, one of scans a tuple SCANS. To add a module, import it and
# add a line.
CHECKS: tuple[Check, ...] = (
    *structure.CHECKS,
    *pointers.CHECKS,
    *statistics.CHECKS,
    *video.CHECKS,
    *images.CHECKS,
)
SCANS: tuple[type[Scan], ...] = (
    *tables.SCANS,
    *columns.SCANS,
    *time.SCANS,
    *computed.SCANS,
    *content.SCANS,
)
