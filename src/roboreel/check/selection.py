"""Codes as they are asked for: whole, or by their beginnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.findings import RULES, TIERS, Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_TIER: Tier = "index"


def select_codes(only: Sequence[str] = (), ignore: Sequence[str] = ()) -> list[str]:
    """Return the codes that are asked for, in their order.

    Examples:
        >>> select_codes(only=["RR50", "101"], ignore=["RR506"])
        ['RR101', 'RR501', 'RR502', 'RR503', 'RR504', 'RR505']

    Raises:
        ValueError: No rule has such a code.
    """
    wanted = {code for text in only for code in _codes(text)} if only else set(RULES)
    ignored = {code for text in ignore for code in _codes(text)}
    return [code for code in RULES if code in wanted - ignored]


def needed_tier(only: Sequence[str]) -> Tier:
    """Return the tier that codes need if they are spelled out; otherwise the default."""
    spelled = [RULES[code].tier for text in only for code in _codes(text) if code == _full(text)]
    return max([DEFAULT_TIER, *spelled], key=TIERS.index)


def _codes(text: str) -> list[str]:
    codes = [code for code in RULES if code.startswith(_full(text))]
    if not codes:
        raise ValueError(
            f"No rule has the code {text!r}: there are {next(iter(RULES))} to {list(RULES)[-1]}. "
            f"See docs/checking.md."
        )
    return codes


def _full(text: str) -> str:
    """Return a code as it is written in the list: ``5xx`` and ``rr5`` are ``RR5``."""
    return "RR" + text.strip().upper().removeprefix("RR").rstrip("X")
