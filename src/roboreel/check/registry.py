"""The list of all checks, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.check import structure, video

if TYPE_CHECKING:
    from roboreel.check.checks import Check

__all__ = ["CHECKS"]

# Every module of checks has a tuple CHECKS. To add one, import it and add a line.
CHECKS: tuple[Check, ...] = (*structure.CHECKS, *video.CHECKS)
